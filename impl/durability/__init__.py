"""How what is written becomes durable: components, policy, methods, and the system calls."""
