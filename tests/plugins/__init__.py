"""The plugin processes, with plugins that hang, crash and print."""
