package codec

// PlainExecution is the document of a state item, not compressed.
func PlainExecution(packed []byte) ([]byte, error) { return executionCompressor.Decompress(packed) }
