package simulator

import (
	"fmt"
	"slices"
	"time"
)

// changeOperations are the operations that change a device.
var changeOperations = []Operation{OpUpgrade, OpRollback, OpConfigure, OpTouch}

// Behaviour is the set of faults of a device; the zero value has none. The faults are
// independent: a device can be slow and then drop the connection.
type Behaviour struct {
	Slow        *Slow   `json:"slow,omitempty"`
	Refuse      *Refuse `json:"refuse,omitempty"`
	Drop        *Drop   `json:"drop,omitempty"`
	KeepVersion *Fault  `json:"keepVersion,omitempty"` // boots, claims success, and keeps the old version
}

// Fault limits a fault.
type Fault struct {
	// Times is the number of further calls with the fault; 0 means all. The fault is
	// removed after the last one.
	Times int `json:"times,omitempty"`
	// Operations are the operations with the fault. If empty, Slow and Refuse apply to
	// every change, Drop and KeepVersion to upgrades. Reads must be named.
	Operations []Operation `json:"operations,omitempty"`
}

// Slow delays a call before it has any effect.
type Slow struct {
	Fault
	Delay Duration `json:"for"`
}

// Refuse answers with Status, 503 if 0, and changes nothing.
type Refuse struct {
	Fault
	Status int `json:"status,omitempty"`
}

// Drop cuts the connection.
type Drop struct {
	Fault
	Point DropPoint `json:"when"`
}

// DropPoint says when the connection is cut.
type DropPoint string

// The points. A caller cannot tell DropBefore from DropAfter.
const (
	DropBefore    DropPoint = "before"    // the change is not made
	DropAfter     DropPoint = "after"     // the change is made, no byte of the response is sent
	DropAnswering DropPoint = "answering" // the change is made, status 200 and half of the body are sent
)

// Duration is a time.Duration with a text form such as "250ms" in JSON.
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Validate returns an error for an invalid behaviour.
func (b Behaviour) Validate() error {
	if b.Slow != nil {
		if b.Slow.Delay <= 0 {
			return fmt.Errorf("slow.for must be above 0")
		}
		if err := b.Slow.validate("slow", append([]Operation{OpRead}, changeOperations...)...); err != nil {
			return err
		}
	}
	if b.Refuse != nil {
		if s := b.Refuse.Status; s != 0 && (s < 400 || s > 599) {
			return fmt.Errorf("refuse.status is %d, want 400 to 599", s)
		}
		if err := b.Refuse.validate("refuse", append([]Operation{OpRead}, changeOperations...)...); err != nil {
			return err
		}
	}
	if b.Drop != nil {
		if !slices.Contains([]DropPoint{DropBefore, DropAfter, DropAnswering}, b.Drop.Point) {
			return fmt.Errorf("drop.when is %q, want before, after or answering", b.Drop.Point)
		}
		if err := b.Drop.validate("drop", changeOperations...); err != nil {
			return err
		}
	}
	if b.KeepVersion != nil {
		return b.KeepVersion.validate("keepVersion", OpUpgrade, OpRollback)
	}
	return nil
}

func (f Fault) validate(name string, allowed ...Operation) error {
	if f.Times < 0 {
		return fmt.Errorf("%s.times is %d, want 0 or more", name, f.Times)
	}
	for _, o := range f.Operations {
		if !slices.Contains(allowed, o) {
			return fmt.Errorf("%s.operations contains %q, want some of %v", name, o, allowed)
		}
	}
	return nil
}

// clone returns a copy, so that each device counts down by itself.
func (b Behaviour) clone() Behaviour {
	return Behaviour{Slow: clonePointer(b.Slow), Refuse: clonePointer(b.Refuse), Drop: clonePointer(b.Drop), KeepVersion: clonePointer(b.KeepVersion)}
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// applies reports whether the fault applies to an operation.
func (f Fault) applies(o Operation, byDefault ...Operation) bool {
	if len(f.Operations) == 0 {
		return slices.Contains(byDefault, o)
	}
	return slices.Contains(f.Operations, o)
}

// consume counts one call and reports whether the fault is used up.
func (f *Fault) consume() bool {
	if f.Times == 0 {
		return false
	}
	f.Times--
	return f.Times == 0
}

// takeSlow consumes one call of the fault Slow and returns the delay.
func (b *Behaviour) takeSlow(o Operation) time.Duration {
	s := b.Slow
	if s == nil || !s.applies(o, changeOperations...) {
		return 0
	}
	if s.consume() {
		b.Slow = nil
	}
	return time.Duration(s.Delay)
}

// takeRefuse consumes one call of the fault Refuse and returns the status, or 0.
func (b *Behaviour) takeRefuse(o Operation) int {
	r := b.Refuse
	if r == nil || !r.applies(o, changeOperations...) {
		return 0
	}
	if r.consume() {
		b.Refuse = nil
	}
	if r.Status == 0 {
		return 503
	}
	return r.Status
}

// takeDrop consumes one call of the fault Drop and returns the point, or "".
func (b *Behaviour) takeDrop(o Operation) DropPoint {
	d := b.Drop
	if d == nil || !d.applies(o, OpUpgrade) {
		return ""
	}
	if d.consume() {
		b.Drop = nil
	}
	return d.Point
}

// takeKeepVersion consumes one call of the fault KeepVersion and reports whether it applies.
func (b *Behaviour) takeKeepVersion(o Operation) bool {
	k := b.KeepVersion
	if k == nil || !k.applies(o, OpUpgrade) {
		return false
	}
	if k.consume() {
		b.KeepVersion = nil
	}
	return true
}
