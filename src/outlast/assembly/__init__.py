"""Where the parts are put together: the only room that knows both halves and the concrete stores."""
