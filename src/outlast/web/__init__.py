"""The static page: lists runs and follows one live, over the same HTTP that every other reader uses."""
