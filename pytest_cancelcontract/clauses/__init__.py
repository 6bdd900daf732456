"""The clauses, one a file: each reads a drill's history and says kept, broken or inconclusive. They never look at the world."""
