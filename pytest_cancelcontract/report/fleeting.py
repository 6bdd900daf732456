"""Which processes of a run that was found from outside are not told one by one. Imports nothing: lines are printed while a run goes on."""

FLEETING_S = 1.0
"""A process that is dead again so soon: a run that loops over a short command would fill the screen, and the picture."""
