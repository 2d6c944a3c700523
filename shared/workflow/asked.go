package workflow

import (
	"encoding/json"
	"fmt"
	"time"
)

// AskedWait is what a block asks to wait for: a time, a signal, or input from a person. After the
// wait the block is called again, with a Resume.
type AskedWait struct {
	Until  time.Time   `json:"until,omitzero"`   // the time, or the deadline for the signal or the input
	Reason string      `json:"reason,omitempty"` // shown to people
	Signal string      `json:"signal,omitempty"` // name of the signal
	Input  *AskedInput `json:"input,omitempty"`
}

// AskedInput is input that a block asks for.
type AskedInput struct {
	Schema json.RawMessage `json:"schema,omitempty"` // JSON Schema of an answer; absent accepts any value
	Who    Who             `json:"who,omitzero"`
}

// Resume tells a block that is called again the result of its wait. TimedOut means that nothing
// came before the deadline.
type Resume struct {
	Kind     WaitKind        `json:"kind"`
	Value    json.RawMessage `json:"value,omitempty"` // the input, or the data of the signal
	TimedOut bool            `json:"timedOut,omitempty"`
}

// MaxAskedBytes bounds the size of an AskedWait, as JSON.
const MaxAskedBytes = 16 << 10

// Kind returns what kind of thing the block waits for.
func (w *AskedWait) Kind() WaitKind {
	switch {
	case w.Input != nil:
		return WaitInput
	case w.Signal != "":
		return WaitSignal
	}
	return WaitTimer
}

// Problem returns what is wrong with the AskedWait; nil if nothing is. It does not check the
// schema.
func (w *AskedWait) Problem() *Issue {
	raw, err := EncodeJSON(w)
	switch {
	case err != nil:
		return &Issue{Path: "wait", Code: "json", Message: err.Error()}
	case len(raw) > MaxAskedBytes:
		return &Issue{Path: "wait", Code: "limit", Message: fmt.Sprintf("it takes %d bytes, the limit is %d", len(raw), MaxAskedBytes)}
	case w.Input != nil && w.Signal != "":
		return &Issue{Path: "wait.signal", Code: "conflict", Message: "a block asks for input or for a signal, not both"}
	case w.Kind() == WaitTimer && w.Until.IsZero():
		return &Issue{Path: "wait.until", Code: "required", Message: "say what to wait for: until, signal or input"}
	case w.Signal != "" && !ValidSignalName(w.Signal):
		return &Issue{Path: "wait.signal", Code: "format", Message: "want a letter or _, then letters, digits, _ . and -, at most 64"}
	}
	return nil
}
