"""Every ClientApp starts a child process and waits for it for ever."""
