"""The debugger of the command line.

lines      the lines that a person types, or that come from a file or a pipe
session    one debugger: a position in a run, and the commands that are typed
movement   the commands that move in the run
views      the commands that show the run at this point
"""
