"""Generated from the contract; see protos/."""
