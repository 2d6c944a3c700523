package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// State is the state that a device reports.
type State struct {
	ID           string            `json:"id"`
	Groups       []string          `json:"groups"`
	Version      string            `json:"version"`
	BootCount    int               `json:"bootCount"` // 1 when new
	Config       map[string]string `json:"config"`
	Touches      int               `json:"touches"`
	HighestFence string            `json:"highestFence"`
	Changes      int               `json:"changes"` // entries in the log
	Busy         bool              `json:"busy"`
	Behaviour    Behaviour         `json:"behaviour"`
}

// change is a request to a device, not yet checked.
type change struct {
	operation Operation
	version   string             // upgrade, rollback
	config    map[string]*string // configure; nil removes the key
	fence     string
	key       string
	invalid   string // why the body is invalid; the device logs the attempt anyway
	tooLarge  bool
}

// reply is a device's response, or where it drops the connection.
type reply struct {
	status int
	drop   DropPoint
	body   any
}

// answer is the body of the response to a change that succeeded, or claims to have.
type answer struct {
	ID        string `json:"id"`
	Version   string `json:"version"`
	BootCount int    `json:"bootCount"`
	Touches   int    `json:"touches"`
	Repeat    bool   `json:"repeat"`
}

// problem is the body of every other response.
type problem struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	HighestFence string `json:"highestFence,omitempty"`
}

// pendingChange is an accepted change that waits for its turn or has it.
type pendingChange struct {
	seq        int
	turn       chan struct{} // closed when its turn comes
	callerGone func() bool
}

type device struct {
	Device
	now      func() time.Time
	after    func(time.Duration) <-chan time.Time
	powerOff <-chan struct{} // closed when the power is switched off

	mu           sync.Mutex
	writeJournal func(journalLine) // nil without a state file and after a reset
	persistent   persistentState
	log          []LogEntry
	accepted     map[string]bool  // idempotency keys
	queue        []*pendingChange // the first one has its turn
	behaviour    Behaviour
}

// persistentState is the part of a device that survives its process.
type persistentState struct {
	Version      string            `json:"version"`
	BootCount    int               `json:"bootCount"`
	Config       map[string]string `json:"config"`
	Touches      int               `json:"touches"`
	HighestFence string            `json:"highestFence"`
}

func (d *device) state() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return State{
		ID: d.ID, Groups: slices.Clone(d.Groups), Version: d.persistent.Version, BootCount: d.persistent.BootCount,
		Config: maps.Clone(d.persistent.Config), Touches: d.persistent.Touches, HighestFence: d.persistent.HighestFence,
		Changes: len(d.log), Busy: len(d.queue) > 0, Behaviour: d.behaviour.clone(),
	}
}

func (d *device) entries() []LogEntry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]LogEntry{}, d.log...)
}

func (d *device) setBehaviour(b Behaviour) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.behaviour = b.clone()
}

// perform makes one change. The caller's context ends only the wait for the turn: the
// device completes a change that it has started.
func (d *device) perform(ctx context.Context, c change) reply {
	seq, pending, refusal := d.accept(ctx, c)
	if pending == nil {
		return refusal
	}
	select {
	case <-pending.turn:
	case <-ctx.Done():
		return d.abort(seq, pending, OutcomeAbandoned, "the caller hung up before the change started")
	case <-d.powerOff:
		return d.abort(seq, pending, OutcomeInterrupted, "the device lost power before the change started")
	}
	d.mu.Lock()
	pause := d.behaviour.takeSlow(c.operation)
	d.mu.Unlock()
	if pause > 0 {
		select {
		case <-d.after(pause):
		case <-d.powerOff:
			return d.abort(seq, pending, OutcomeInterrupted, "the device lost power during the change")
		}
	}
	return d.finish(seq, pending, c)
}

// accept logs the change and decides whether to accept it. It returns the pending change,
// or nil and the refusal.
func (d *device) accept(ctx context.Context, c change) (int, *pendingChange, reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seq := len(d.log) + 1
	d.log = append(d.log, LogEntry{
		Seq: seq, At: d.now(), Operation: c.operation, Requested: c.requested(),
		Fence: c.fence, Token: FenceLockToken(c.fence), IdempotencyKey: c.key,
		Outcome: OutcomeRunning, From: d.persistent.Version, To: d.persistent.Version,
	})
	e := &d.log[seq-1]
	refuse := func(status int, code, message string) (int, *pendingChange, reply) {
		e.Outcome, e.Code, e.Message, e.EndedAt = OutcomeRefused, code, message, d.now()
		d.record(*e)
		body := problem{Code: code, Message: message}
		if code == CodeStaleFence {
			body.HighestFence = d.persistent.HighestFence
		}
		return seq, nil, reply{status: status, body: body}
	}
	select {
	case <-d.powerOff:
		return refuse(503, CodeNoPower, "the device has no power")
	default:
	}
	switch {
	case c.fence == "":
		return refuse(400, CodeFenceRequired, "a change needs the header X-Fence")
	case c.fence < d.persistent.HighestFence:
		return refuse(409, CodeStaleFence, fmt.Sprintf("fence %q is lower than %q", c.fence, d.persistent.HighestFence))
	case c.key == "":
		return refuse(400, CodeKeyRequired, "a change needs the header Idempotency-Key")
	case c.tooLarge:
		return refuse(413, CodeTooLarge, c.invalid)
	case c.invalid != "":
		return refuse(400, CodeInvalid, c.invalid)
	}
	// The device remembers the fence even if it refuses the change for another reason
	// below.
	d.persistent.HighestFence = c.fence
	if status := d.behaviour.takeRefuse(c.operation); status != 0 {
		return refuse(status, CodeRefused, "the device refuses")
	}
	e.Accepted, e.Repeat = true, d.accepted[c.key]
	d.accepted[c.key] = true
	pending := &pendingChange{seq: seq, turn: make(chan struct{}), callerGone: func() bool { return ctx.Err() != nil }}
	if last := len(d.queue) - 1; last >= 0 {
		e.Overlap, e.Overlaps, e.CallerGone = true, d.queue[last].seq, d.queue[last].callerGone()
	} else {
		close(pending.turn)
	}
	d.queue = append(d.queue, pending)
	d.record(*e)
	return seq, pending, reply{}
}

// finish applies the change at the end of its turn, with the faults that are set at that
// time.
func (d *device) finish(seq int, pending *pendingChange, c change) reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.log[seq-1]
	drop := d.behaviour.takeDrop(c.operation)
	e.From = d.persistent.Version
	claimed := d.persistent.Version
	if drop != DropBefore {
		e.Applied, e.Effective, claimed = d.apply(c)
	}
	e.To, e.EndedAt, e.Outcome = d.persistent.Version, d.now(), OutcomeAnswered
	if drop != "" {
		e.Outcome = OutcomeDropped
	}
	d.record(*e)
	d.releaseTurn(pending)
	return reply{status: 200, drop: drop, body: answer{
		ID: d.ID, Version: claimed, BootCount: d.persistent.BootCount, Touches: d.persistent.Touches, Repeat: e.Repeat,
	}}
}

// apply changes the device. claimed is the version that it reports, which is false with
// the fault KeepVersion.
func (d *device) apply(c change) (applied, effective bool, claimed string) {
	switch c.operation {
	case OpUpgrade, OpRollback:
		if d.persistent.Version == c.version {
			return true, false, c.version
		}
		d.persistent.BootCount++
		if d.behaviour.takeKeepVersion(c.operation) {
			return false, false, c.version
		}
		d.persistent.Version = c.version
		return true, true, c.version
	case OpConfigure:
		for key, value := range c.config {
			former, set := d.persistent.Config[key]
			switch {
			case value == nil && set:
				delete(d.persistent.Config, key)
				effective = true
			case value != nil && (!set || former != *value):
				d.persistent.Config[key] = *value
				effective = true
			}
		}
	case OpTouch:
		d.persistent.Touches++
		effective = true
	case OpRead: // not a change
	}
	return true, effective, d.persistent.Version
}

// abort ends an accepted change without making it.
func (d *device) abort(seq int, pending *pendingChange, outcome Outcome, message string) reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.log[seq-1]
	e.Outcome, e.Message, e.EndedAt = outcome, message, d.now()
	d.record(*e)
	d.releaseTurn(pending)
	return reply{status: 503, body: problem{Code: CodeNoPower, Message: message}}
}

// releaseTurn removes a change from the queue and gives the turn to the next one, if the
// removed one had it.
func (d *device) releaseTurn(pending *pendingChange) {
	first := d.queue[0] == pending
	d.queue = slices.DeleteFunc(d.queue, func(p *pendingChange) bool { return p == pending })
	if first && len(d.queue) > 0 {
		close(d.queue[0].turn)
	}
}

// read returns the state. Faults apply only if they name reads.
func (d *device) read(ctx context.Context) reply {
	d.mu.Lock()
	status, pause := d.behaviour.takeRefuse(OpRead), d.behaviour.takeSlow(OpRead)
	d.mu.Unlock()
	if pause > 0 {
		select {
		case <-d.after(pause):
		case <-ctx.Done():
		case <-d.powerOff:
		}
	}
	if status != 0 {
		return reply{status: status, body: problem{Code: CodeRefused, Message: "the device refuses"}}
	}
	return reply{status: 200, body: d.state()}
}

func (d *device) record(e LogEntry) {
	if d.writeJournal != nil {
		d.writeJournal(journalLine{Device: d.ID, Entry: &e, Memory: &d.persistent})
	}
}

func (c change) requested() string {
	if c.operation != OpConfigure || c.config == nil {
		return c.version
	}
	text, err := json.Marshal(c.config)
	if err != nil { // strings and nulls always marshal
		return err.Error()
	}
	return string(text)
}
