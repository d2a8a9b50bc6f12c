"""The layouts `gguf.<type>/1`: blocks of GGUF."""
