// Package simulator is a fleet of network devices in one process, each an HTTP endpoint
// with its own state. Tests and the demo check an execution against what the devices
// themselves report, and not against what the system that changed them believes.
//
//   - inventory.go: devices by name, group and attributes, as JSON lines or numbered.
//   - fleet.go: all devices together, [New], the Go accessors and the reset.
//   - device.go: one device and the stages of a change: arrival, the fence check, waiting
//     for its turn, application, answer.
//   - behaviour.go: faults: slow, refusing, dropping the connection, keeping the old version.
//   - handler.go: the HTTP routes.
//   - journal.go: the file with which a fleet survives its process.
//   - log.go: the log of every change that a device was asked to make, and [CheckLog], which
//     checks it.
//
// # The fence
//
// A change carries a fence, a text that compares lexicographically. The device remembers
// the highest fence it has seen and refuses a lower one with status 409 and code
// stale_fence, before it checks anything else. It accepts an equal or higher fence. That
// is all a device does for exclusive access: it need not know who holds a lock, only that
// a later holder has already been there.
//
// # One change at a time
//
// A device makes one change at a time, in order of arrival. A change that arrives during
// another one waits for its turn and is logged with overlap true, because a system that
// locks correctly does not let that happen; [CheckLog] defines which overlaps are allowed.
// Like a real device, it completes a change that it has started even if the caller hangs
// up; a change that still waits is dropped.
//
// # Idempotency
//
// Upgrade, rollback and configuration are idempotent: a device that already has the version
// does not boot again. Touch is deliberately not idempotent: it counts every call and
// remembers no key, and so proves that a call was made only once.
package simulator

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Options describes a new fleet.
type Options struct {
	// Devices are used as given. Their ids must be unique, as [ReadInventory] and
	// [NumberedDevices] return them.
	Devices []Device
	// InitialVersion is the first version of every device, "1.0.0" if empty.
	InitialVersion string
	// Now is the devices' clock, time.Now if nil.
	Now func() time.Time
	// After is the timer of slow devices, time.After if nil.
	After func(time.Duration) <-chan time.Time
}

// Fleet is a number of devices. It is safe for concurrent use.
type Fleet struct {
	options Options

	mu       sync.RWMutex
	devices  map[string]*device
	order    []string
	powerOff chan struct{}
	closed   bool

	journalMu   sync.Mutex // guards the journal; taken last
	journalFile *os.File
	writeErr    error // the first failure to write the journal
}

// New returns a fleet of new devices.
func New(o Options) *Fleet {
	if o.InitialVersion == "" {
		o.InitialVersion = "1.0.0"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	f := &Fleet{options: o}
	f.initDevices(nil)
	return f
}

// initDevices sets every device to its initial state.
func (f *Fleet) initDevices(journal func(journalLine)) {
	f.powerOff = make(chan struct{})
	f.devices = make(map[string]*device, len(f.options.Devices))
	f.order = make([]string, 0, len(f.options.Devices))
	for _, d := range f.options.Devices {
		if d.Groups == nil {
			d.Groups = []string{}
		}
		f.order = append(f.order, d.ID)
		f.devices[d.ID] = &device{
			Device: d, now: f.options.Now, after: f.options.After, powerOff: f.powerOff, writeJournal: journal,
			persistent: persistentState{Version: f.options.InitialVersion, BootCount: 1, Config: map[string]string{}},
			accepted:   map[string]bool{},
		}
	}
}

func (f *Fleet) device(id string) (*device, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	d, ok := f.devices[id]
	return d, ok
}

// all returns the devices in the order of the inventory.
func (f *Fleet) all() []*device {
	f.mu.RLock()
	defer f.mu.RUnlock()
	devices := make([]*device, 0, len(f.order))
	for _, id := range f.order {
		devices = append(devices, f.devices[id])
	}
	return devices
}

// Device returns the state of a device, and whether it exists. Unlike the HTTP route it
// is not subject to faults.
func (f *Fleet) Device(id string) (State, bool) {
	d, ok := f.device(id)
	if !ok {
		return State{}, false
	}
	return d.state(), true
}

// Devices returns the states of the devices in the order of the inventory.
func (f *Fleet) Devices() []State {
	devices := f.all()
	states := make([]State, 0, len(devices))
	for _, d := range devices {
		states = append(states, d.state())
	}
	return states
}

// Versions counts the devices by version.
func (f *Fleet) Versions() map[string]int {
	return countVersions(f.Devices())
}

func countVersions(states []State) map[string]int {
	counts := map[string]int{}
	for _, s := range states {
		counts[s.Version]++
	}
	return counts
}

// Log returns every change that a device was asked to make, in order of arrival, and nil
// for an unknown device.
func (f *Fleet) Log(id string) []LogEntry {
	d, ok := f.device(id)
	if !ok {
		return nil
	}
	return d.entries()
}

// CheckLogs applies [CheckLog] to the logs of the named devices, or of all.
func (f *Fleet) CheckLogs(ids ...string) []Violation {
	violations := []Violation{}
	for _, d := range f.all() {
		if len(ids) == 0 || slices.Contains(ids, d.ID) {
			violations = append(violations, CheckLog(d.ID, d.entries())...)
		}
	}
	return violations
}

// SetBehaviour replaces the behaviour of the named devices; the zero [Behaviour] removes
// all faults. It returns an error and changes nothing if the behaviour is invalid, a device
// is unknown or none is named, so that an empty group never means all devices; for those
// use [Fleet.IDs].
func (f *Fleet) SetBehaviour(b Behaviour, ids ...string) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if len(ids) == 0 {
		return errors.New("no device given")
	}
	devices := make([]*device, 0, len(ids))
	for _, id := range ids {
		d, ok := f.device(id)
		if !ok {
			return fmt.Errorf("no device %q", id)
		}
		devices = append(devices, d)
	}
	for _, d := range devices {
		d.setBehaviour(b)
	}
	return nil
}

// IDs returns the ids of all devices in the order of the inventory.
func (f *Fleet) IDs() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.order)
}

// Group returns the ids of the devices of a group in the order of the
// inventory.
func (f *Fleet) Group(name string) []string {
	var ids []string
	for _, d := range f.all() {
		if slices.Contains(d.Groups, name) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Reset sets every device to its initial state without faults: first version, one boot, an
// empty log, no fence seen. A change in progress is interrupted and leaves no trace.
func (f *Fleet) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	// The old devices must not write to the journal after the reset, or a late line
	// would restore an old log on restart.
	var journal func(journalLine)
	for _, d := range f.devices {
		d.mu.Lock()
		journal, d.writeJournal = d.writeJournal, nil
		d.mu.Unlock()
	}
	close(f.powerOff)
	if journal != nil {
		journal(journalLine{Reset: true})
	}
	f.initDevices(journal)
}

// Close switches the power off: it interrupts changes in progress and closes the journal.
// It returns the first error of writing the journal.
func (f *Fleet) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	close(f.powerOff)
	f.journalMu.Lock()
	defer f.journalMu.Unlock()
	if f.journalFile == nil {
		return f.writeErr
	}
	err := errors.Join(f.writeErr, f.journalFile.Close())
	f.journalFile = nil
	return err
}
