package workflow

// BusinessKey is the item of a business key of a workflow: the execution that took it last. The
// key is held while that execution exists and has not ended. The item is never removed, and each
// write of it raises Revision by one. It is zero for a key that no execution has taken.
type BusinessKey struct {
	Execution string
	Revision  int64
}

// ValidBusinessKey reports whether s can be a business key.
func ValidBusinessKey(s string) bool { return ValidID(s) }
