"""Companies as `supervisor up` starts them, measured from outside; run by the interpreter that has the peers."""
