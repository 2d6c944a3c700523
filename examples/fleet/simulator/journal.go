package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator/devicelog"
)

// line is one line of the state file: an entry as it arrived or as it ended,
// with what the device remembers at that moment, or a reset of everything.
type line struct {
	Reset  bool             `json:"reset,omitempty"`
	Device string           `json:"device,omitempty"`
	Entry  *devicelog.Entry `json:"entry,omitempty"`
	Memory *memory          `json:"memory,omitempty"`
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
	whole, err := f.replay(file)
	if err == nil {
		err = file.Truncate(whole)
	}
	if err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("state file %s: %w", path, err)
	}
	f.file.Lock()
	f.out = file
	f.file.Unlock()
	for _, d := range f.all() {
		d.mu.Lock()
		d.journal = f.write
		d.interrupt()
		d.mu.Unlock()
	}
	return nil
}

// replay reads the whole lines and returns their length in bytes.
func (f *Fleet) replay(r io.Reader) (int64, error) {
	lines := bufio.NewReader(r)
	var whole int64
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return whole, nil
		}
		if err != nil {
			return 0, err
		}
		var l line
		if err := decodeStrictly(bytes.NewReader(text), &l); err != nil {
			return 0, fmt.Errorf("line %d: %w", number, err)
		}
		whole += int64(len(text))
		if l.Reset {
			f.mu.Lock()
			f.plugIn(nil)
			f.mu.Unlock()
			continue
		}
		if l.Entry == nil || l.Memory == nil {
			return 0, fmt.Errorf("line %d: neither a reset nor an entry with its memory", number)
		}
		if d, known := f.device(l.Device); known {
			if err := d.remember(l); err != nil {
				return 0, fmt.Errorf("line %d: %w", number, err)
			}
		}
	}
}

// remember takes one line back into the device.
func (d *device) remember(l line) error {
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
	d.memory = *l.Memory
	if d.memory.Config == nil {
		d.memory.Config = map[string]string{}
	}
	if l.Entry.Accepted {
		d.accepted[l.Entry.IdempotencyKey] = true
	}
	return nil
}

// interrupt ends the changes that were under way when the process died.
func (d *device) interrupt() {
	for i := range d.log {
		if e := &d.log[i]; e.Outcome == devicelog.Running {
			e.Outcome, e.Message, e.EndedAt = devicelog.Interrupted, "the device lost power during the change", d.now()
			d.record(*e)
		}
	}
}

// write appends one line in a single call, so that lines never mix.
func (f *Fleet) write(l line) {
	f.file.Lock()
	defer f.file.Unlock()
	if f.out == nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = f.out.Write(append(text, '\n'))
	}
	if err != nil && f.bad == nil {
		f.bad = fmt.Errorf("state file: %w", err)
	}
}
