package workflow

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// JobKind says which function of a block a job calls.
type JobKind string

// The kinds of jobs.
const (
	JobAcquire  JobKind = "ACQUIRE"
	JobExecute  JobKind = "EXECUTE"
	JobRollback JobKind = "ROLLBACK"
)

// JobCode is the state of one job in its pack item.
type JobCode string

// Codes of jobs. For a block that is not repeatable, only OK, FAIL or UNKNOWN follow STARTED.
const (
	JobCodeNone        JobCode = "NONE"
	JobCodeStarted     JobCode = "STARTED"
	JobCodeOK          JobCode = "OK"
	JobCodeFail        JobCode = "FAIL"
	JobCodeUnknown     JobCode = "UNKNOWN"
	JobCodeNotExecuted JobCode = "NOT_EXECUTED"
)

// Executed reports whether a job with this final code counts as executed. UNKNOWN does.
func (c JobCode) Executed() bool { return c == JobCodeOK || c == JobCodeFail || c == JobCodeUnknown }

// JobInput is the immutable input of one job. The message of the pack carries it.
type JobInput struct {
	Index      int             `json:"i"`                // position in the step run
	Entity     *EntityKey      `json:"entity,omitempty"` // nil for a global call
	Attributes json.RawMessage `json:"attrs,omitempty"`  // attributes of the entity, as read under the lock
	Parameters json.RawMessage `json:"params,omitempty"` // resolved parameters
	Token      int64           `json:"token,omitempty"`  // the entity's lock token
	Result     json.RawMessage `json:"result,omitempty"` // for ROLLBACK: result of the job to undo

	// ResultRef says where that result is stored if it is too large for a message.
	ResultRef *PayloadRef `json:"resultRef,omitempty"`

	// Resume is the result of the wait that the block requested when it was called before: the JSON
	// of a Resume.
	Resume json.RawMessage `json:"resume,omitempty"`

	// Checkpoints are what the previous attempt has saved.
	Checkpoints Checkpoints `json:"checkpoints,omitempty"`

	// Item is the list item that the job is for; nil for other jobs. Messages do not carry it: a
	// block learns only what its parameters contain.
	Item *Item `json:"-"`
}

// Item is one item of the list of a step that has a job for each item.
type Item struct {
	Number int // index in the list, from 0
	Value  json.RawMessage
}

// MaxItemText is how many bytes of an item are shown.
const MaxItemText = 60

// Text returns a short form of the item for people: its name, label or id if it is an object that
// has one, otherwise its JSON.
func (i *Item) Text() string {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(i.Value, &fields) // any other value is shown as it is
	value := i.Value
	for _, name := range []string{"name", "label", "id"} {
		if raw, ok := fields[name]; ok {
			value = raw
			break
		}
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return Truncate(text, MaxItemText)
}

// ItemKey returns the key of an item, where entities have theirs. No entity has such a key, because
// it has no type.
func ItemKey(number int) EntityKey { return EntityKey{ID: strconv.Itoa(number)} }

// Key returns the key of the job's entity or item; the zero key for a global job.
func (j *JobInput) Key() EntityKey {
	switch {
	case j.Entity != nil:
		return *j.Entity
	case j.Item != nil:
		return ItemKey(j.Item.Number)
	}
	return EntityKey{}
}

// Name returns the name of the job's entity or item, for people; "" for a global job.
func (j *JobInput) Name() string {
	if j.Entity == nil && j.Item == nil {
		return ""
	}
	return j.Key().Name()
}

// JobRecord is what a pack item stores about one job.
type JobRecord struct {
	Index     int                   `json:"i"`
	Code      JobCode               `json:"c"`
	StartedAt time.Time             `json:"s,omitzero"`
	EndedAt   time.Time             `json:"e,omitzero"`
	Outcome   statemachines.Outcome `json:"o,omitempty"`
	Result    json.RawMessage       `json:"r,omitempty"`
	Failure   *Failure              `json:"f,omitempty"`
	Updates   json.RawMessage       `json:"u,omitempty"` // entity updates that the block requests, a list of Update
	Entities  []EntityKey           `json:"n,omitempty"` // the entities that acquire returned

	// ResultRef is set if the result is too large for the pack: it is stored in items of its own,
	// and Result is empty. For an ACQUIRE, the result is the list of entities.
	ResultRef *PayloadRef `json:"l,omitempty"`

	// Next is the label of the step with which the block lets the execution continue, or "end".
	Next string `json:"x,omitempty"`

	// Wait is what the block of a global step asks to wait for before it is called again.
	Wait *AskedWait `json:"w,omitempty"`

	// Checkpoints are what the job has saved, in this and earlier attempts, as long as it has not
	// succeeded.
	Checkpoints Checkpoints `json:"k,omitempty"`

	// Progress is the progress that the job last reported; nil if it has reported none.
	Progress *JobProgress `json:"g,omitempty"`

	// Logs are what the job has logged, nil for nothing.
	Logs *JobLogs `json:"t,omitempty"`
}

// Executed reports whether the job counts as executed. A job whose call was never made has failed
// without being executed.
func (r *JobRecord) Executed() bool {
	unsent := r.Code == JobCodeFail && r.Failure != nil && r.Failure.Unsent
	return r.Code.Executed() && !unsent
}

// MaxResultBytes is the largest result or update of one job, in bytes.
const MaxResultBytes = 1 << 20

// Job is one job as the API shows it.
type Job struct {
	ID             string                 `json:"id"`
	Kind           JobKind                `json:"kind"`
	Step           string                 `json:"step"`
	StepRunOrdinal int                    `json:"visit"`
	Wave           *int                   `json:"wave"`
	Entity         *EntityKey             `json:"entity"`
	Item           *int                   `json:"item"`     // for a step with foreach: index of its item, from 0
	ItemText       *string                `json:"itemText"` // a short form of that item
	State          statemachines.JobState `json:"state"`
	Attempt        int                    `json:"attempt"`
	Replaces       *string                `json:"replaces"`
	ReplacedBy     *string                `json:"replacedBy"`
	Worker         *string                `json:"worker"`
	Token          *int64                 `json:"token"`
	CreatedAt      time.Time              `json:"createdAt"`
	ClaimedAt      *time.Time             `json:"claimedAt"`
	StartedAt      *time.Time             `json:"startedAt"`
	EndedAt        *time.Time             `json:"endedAt"`
	Outcome        *statemachines.Outcome `json:"outcome"`
	Parameters     json.RawMessage        `json:"parameters"` // contains the names of secrets, not their values
	Result         json.RawMessage        `json:"result"`
	Error          *Failure               `json:"error"`
	Progress       *JobProgress           `json:"progress"`
	Checkpoints    Checkpoints            `json:"checkpoints"`
	Logs           []LogLine              `json:"logs"`
	LogsDropped    int                    `json:"logsDropped"` // lines before these that are not kept
}

// JobID identifies one attempt of one job. It is the Idempotency-Key of the block's call, and is
// the same for every delivery and takeover of the attempt.
func JobID(execution string, stepRunSeq, index, attempt int) string {
	return fmt.Sprintf("%s.%d.%d.%d", execution, stepRunSeq, index, attempt)
}

// Fence returns the text that a device compares: it refuses a fence lower than the highest it has
// seen. Its parts are the lock token of the entity (0 for a global call), the step run, the attempt
// and the token of the pack, each as wide as its maximum.
func Fence(token int64, stepRunSeq, attempt int, packToken int) string {
	return fmt.Sprintf("%010d-%06d-%02d-%02d", token, stepRunSeq, attempt, packToken)
}
