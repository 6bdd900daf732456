"""The deliberately uncooperative runner: a child process that does what badly behaved agents, builds and crawlers do."""
