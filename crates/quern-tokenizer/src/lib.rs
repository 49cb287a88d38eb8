//! Text to token ids and back, from GGUF metadata; byte-exact streaming decode.
