"""Converting between formats: one pipeline, its steps, and the ledger of what is kept."""
