"""The roles reversed: a real agent command line is what is drilled, and the meter is all that it can talk to."""
