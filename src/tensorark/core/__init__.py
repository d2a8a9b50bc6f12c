"""What everything speaks: the model, rules, the conversation of a reader, limits, types."""
