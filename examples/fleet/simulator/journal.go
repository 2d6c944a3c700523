package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// journalLine is one line of the state file: an entry as it arrived or as it ended,
// with what the device remembers at that moment, or a reset of everything.
type journalLine struct {
	Reset  bool             `json:"reset,omitempty"`
	Device string           `json:"device,omitempty"`
	Entry  *LogEntry        `json:"entry,omitempty"`
	Memory *persistentState `json:"memory,omitempty"`
}

// Persist brings back what the file remembers and appends to it from now on,
// so that the devices outlive their process, kill -9 included. It is called
// once, before the first change. A file that does not exist is created; a last
// line that was cut short is taken away; changes that were under way are
// logged as interrupted. Behaviour is not remembered, and lines of devices that
// are no longer in the inventory are passed over.
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

// replay reads the whole lines and returns their length in bytes.
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
			return 0, fmt.Errorf("line %d: neither a reset nor an entry with its memory", number)
		}
		if d, known := f.device(l.Device); known {
			if err := d.restoreLine(l); err != nil {
				return 0, fmt.Errorf("line %d: %w", number, err)
			}
		}
	}
}

// restoreLine takes one line back into the device.
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

// interruptPending ends the changes that were under way when the process died.
func (d *device) interruptPending() {
	for i := range d.log {
		if e := &d.log[i]; e.Outcome == OutcomeRunning {
			e.Outcome, e.Message, e.EndedAt = OutcomeInterrupted, "the device lost power during the change", d.now()
			d.record(*e)
		}
	}
}

// appendJournal appends one line in a single call, so that lines never mix.
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
