package workload

import (
	"fmt"
	"time"
)

// Kind is what somebody does.
type Kind string

// The kinds of acts.
const (
	Start       Kind = "start"
	Twice       Kind = "start twice" // two processes make the same request at once
	Cancel      Kind = "cancel"
	Retry       Kind = "retry"
	Resume      Kind = "resume"
	Unlock      Kind = "unlock"
	Acknowledge Kind = "acknowledge"
	Import      Kind = "import" // a device changes in the inventory
	Schedule    Kind = "schedule"
	Unschedule  Kind = "unschedule"
	Kill        Kind = "kill a worker"
	Stray       Kind = "stray look" // a message that nobody has asked for
	Sweep       Kind = "sweep"      // out of turn
)

// Act is something that somebody does at some time.
type Act struct {
	N          int // its number in the play
	At         time.Duration
	Kind       Kind
	Definition string   // of a start or a schedule
	Devices    []string // of a start; of an import, the one
	Run        int      // of a verb: which of the runs that there are then, of those started first
	Choice     int      // of a verb that has choices
	Later      time.Duration
}

func (a Act) String() string {
	s := fmt.Sprintf("act %d at %s: %s", a.N, a.At, a.Kind)
	if a.Definition != "" {
		s += " " + a.Definition
	}
	if len(a.Devices) > 0 {
		s += fmt.Sprint(" ", a.Devices)
	}
	return s
}
