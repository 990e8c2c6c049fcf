"""Bounded learning: outcomes of runs and ratings move the weights of roles, instances, tools and prompt variants.

`weights` has the arithmetic, `outcomes` reads an ended run, `versions` says how versions follow each other, `choice`
uses the weights for a run, and `learner` keeps them in the journal's database.
"""
