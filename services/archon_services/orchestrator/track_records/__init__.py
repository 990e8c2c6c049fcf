"""The track record of each role and instance: how its tasks ended, their time and their cost.

`tally` has the arithmetic, `observations` reads the events, `records` holds the tallies of all replicas, `factor`
makes of them the factor by which placement compares instances, and `upkeep` stores them in the journal's database.
"""
