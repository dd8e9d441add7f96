"""Understudies: a coder, an architect and a PM that play their machines without a model or a repository.

Between them they have every kind of effect: sends, timers, an ask to a person, and outside effects that cost
something (Think), change a tree (Write) and must happen once (Announce).
"""
