package simulator

import (
	"fmt"
	"time"
)

// actionKind is what somebody does.
type actionKind string

// The kinds of acts.
const (
	actionStart       actionKind = "start"
	actionStartTwice  actionKind = "start twice" // two processes make the same request at once
	actionCancel      actionKind = "cancel"
	actionRetry       actionKind = "retry"
	actionResume      actionKind = "resume"
	actionUnlock      actionKind = "unlock"
	actionAcknowledge actionKind = "acknowledge"
	actionImport      actionKind = "import" // a device changes in the inventory
	actionSchedule    actionKind = "schedule"
	actionUnschedule  actionKind = "unschedule"
	actionKillWorker  actionKind = "kill a worker"
	actionStrayWakeup actionKind = "stray wakeup" // a message that nobody has asked for
	actionSweep       actionKind = "sweep"        // out of turn
)

// action is something that somebody does at some time.
type action struct {
	Number         int // its number in the play
	At             time.Duration
	Kind           actionKind
	Definition     string   // of a start or a schedule
	Devices        []string // of a start; of an import, the one
	ExecutionIndex int      // of a verb: which of the runs that there are then, of those started first
	Choice         int      // of a verb that has choices
	StartDelay     time.Duration
}

func (a action) String() string {
	s := fmt.Sprintf("act %d at %s: %s", a.Number, a.At, a.Kind)
	if a.Definition != "" {
		s += " " + a.Definition
	}
	if len(a.Devices) > 0 {
		s += fmt.Sprint(" ", a.Devices)
	}
	return s
}
