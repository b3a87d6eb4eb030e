"""Where runs and logs are kept: the contract in `base`, one room per engine."""
