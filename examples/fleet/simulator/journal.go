package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// journalLine is a line of the state file: a log entry at its start or end with the
// device's state at that time, or a reset of all devices.
type journalLine struct {
	Reset  bool             `json:"reset,omitempty"`
	Device string           `json:"device,omitempty"`
	Entry  *LogEntry        `json:"entry,omitempty"`
	Memory *persistentState `json:"memory,omitempty"`
}

// Persist restores the devices from a file and appends to it from then on, so that they
// survive their process, even kill -9. Call it once, before the first change. It creates
// a missing file, removes an incomplete last line, and logs changes that were in progress
// as interrupted. It does not restore behaviours, and ignores devices that are no longer
// in the inventory.
func (f *Fleet) Persist(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	validBytes, err := f.replay(file)
	if err == nil {
		err = file.Truncate(validBytes)
	}
	if err == nil {
		_, err = file.Seek(validBytes, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("state file %s: %w", path, err)
	}
	f.journalMu.Lock()
	f.journalFile = file
	f.journalMu.Unlock()
	for _, d := range f.all() {
		d.mu.Lock()
		d.writeJournal = f.appendJournal
		d.interruptPending()
		d.mu.Unlock()
	}
	return nil
}

// replay reads all complete lines and returns their length in bytes.
func (f *Fleet) replay(r io.Reader) (int64, error) {
	lines := bufio.NewReader(r)
	var validBytes int64
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return validBytes, nil
		}
		if err != nil {
			return 0, err
		}
		var l journalLine
		if err := decodeStrict(bytes.NewReader(text), &l); err != nil {
			return 0, fmt.Errorf("line %d: %w", number, err)
		}
		validBytes += int64(len(text))
		if l.Reset {
			f.mu.Lock()
			f.initDevices(nil)
			f.mu.Unlock()
			continue
		}
		if l.Entry == nil || l.Memory == nil {
			return 0, fmt.Errorf("line %d: neither a reset nor an entry with its state", number)
		}
		if d, known := f.device(l.Device); known {
			if err := d.restoreLine(l); err != nil {
				return 0, fmt.Errorf("line %d: %w", number, err)
			}
		}
	}
}

// restoreLine restores one line of the device.
func (d *device) restoreLine(l journalLine) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch seq := l.Entry.Seq; {
	case seq >= 1 && seq <= len(d.log):
		d.log[seq-1] = *l.Entry
	case seq == len(d.log)+1:
		d.log = append(d.log, *l.Entry)
	default:
		return fmt.Errorf("entry %d of %s after %d entries", seq, d.ID, len(d.log))
	}
	d.persistent = *l.Memory
	if d.persistent.Config == nil {
		d.persistent.Config = map[string]string{}
	}
	if l.Entry.Accepted {
		d.accepted[l.Entry.IdempotencyKey] = true
	}
	return nil
}

// interruptPending ends the changes that were in progress when the process died.
func (d *device) interruptPending() {
	for i := range d.log {
		if e := &d.log[i]; e.Outcome == OutcomeRunning {
			e.Outcome, e.Message, e.EndedAt = OutcomeInterrupted, "the device lost power during the change", d.now()
			d.record(*e)
		}
	}
}

// appendJournal appends one line with a single write, so that lines never mix.
func (f *Fleet) appendJournal(l journalLine) {
	f.journalMu.Lock()
	defer f.journalMu.Unlock()
	if f.journalFile == nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = f.journalFile.Write(append(text, '\n'))
	}
	if err != nil && f.writeErr == nil {
		f.writeErr = fmt.Errorf("state file: %w", err)
	}
}
