"""How an actor thinks, pure: conversations, the tool loop and when it goes round in circles, retries, the throttle."""
