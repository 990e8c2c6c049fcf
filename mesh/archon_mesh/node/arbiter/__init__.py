"""An arbiter: a role that settles conflicts among the results of other steps."""
