package workflow

// RollbackMode says whether a failed run is rolled back.
type RollbackMode string

// The rollback modes; RollbackAuto is the default.
const (
	RollbackAuto  RollbackMode = "auto"
	RollbackNever RollbackMode = "never"
)

// LockMode is how a run holds its entities.
type LockMode string

// The lock modes; exclusive is the default. Shared is for runs whose blocks are
// all pure.
const (
	LockExclusive LockMode = "exclusive"
	LockShared    LockMode = "shared"
)

// ReferenceMode says how a referenced definition runs.
type ReferenceMode string

// The modes. An embedded definition runs within the run, under its locks; a
// dispatched one is a run of its own that the step waits for; fire and forget
// starts one and goes on.
const (
	ModeEmbed         ReferenceMode = "embed"
	ModeDispatch      ReferenceMode = "dispatch"
	ModeFireAndForget ReferenceMode = "fireAndForget"
)
