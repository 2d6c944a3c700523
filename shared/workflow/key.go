package workflow

// BusinessKey is the item of a workflow's business key: the execution that took it last. The key is
// held while that execution exists and has not ended. The item is never removed, and each write
// increases Revision by one. A key that no execution has taken is zero.
type BusinessKey struct {
	Execution string
	Revision  int64
}

// ValidBusinessKey reports whether s can be a business key.
func ValidBusinessKey(s string) bool { return ValidID(s) }
