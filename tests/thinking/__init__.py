"""How actors think: the pure rules by table and property, the client against the rehearsal, and all of it together."""
