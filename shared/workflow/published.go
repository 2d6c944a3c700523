package workflow

import "time"

// Published is a stored definition with its bookkeeping.
type Published struct {
	Ref         Ref
	Digest      string // of the canonical source
	Source      []byte // canonical JSON; empty in lists
	PublishedAt time.Time
	PublishedBy string
	Archived    bool // no new runs

	// Warnings tell, in the answer to a publication only, what does not fit what
	// is registered at that moment.
	Warnings []Issue
}

// Binding is what an idempotency key is bound to until it expires.
type Binding struct {
	Execution string
	Digest    string // of the request
	Expires   time.Time
}
