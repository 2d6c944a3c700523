package sqs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lockstep-run/lockstep/localstack/process"
)

const (
	walFileName     = "messages.log"
	walNextFileName = "messages.log.next" // a compaction in progress
	walLockFileName = "lock"
)

// wal is an open write-ahead log. It is not safe for concurrent use. A nil log keeps
// nothing and never fails; it serves a server without a directory.
type wal struct {
	dir      string
	lock     *os.File // held while open: two processes never share a directory
	file     *os.File
	size     int64 // bytes of complete records
	records  int
	writeErr error // set when the end of the file is unknown
}

// openWAL creates the directory if it is missing and calls replay with each record,
// the oldest first. It fails if another process has the directory open, if a record
// other than the last is damaged, and if replay fails.
func openWAL(dir string, replay func(record []byte) error) (*wal, error) {
	if err := process.PrivateDir(dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, walLockFileName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("log %s is in use by another process: %w", dir, err), lock.Close())
	}
	l := &wal{dir: dir, lock: lock}
	l.file, err = os.OpenFile(filepath.Join(dir, walFileName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := l.load(replay); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// load replays the file and removes a torn last record.
func (l *wal) load(replay func([]byte) error) error {
	in := bufio.NewReaderSize(l.file, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // the rest of the line is torn: the process died while it wrote it
		}
		if err != nil {
			return err
		}
		record := bytes.TrimSuffix(line, []byte("\n"))
		if !json.Valid(record) {
			return fmt.Errorf("log %s: record %d is damaged; move the file away to start empty", l.file.Name(), l.records+1)
		}
		if err := replay(record); err != nil {
			return fmt.Errorf("log %s: record %d: %w", l.file.Name(), l.records+1, err)
		}
		l.size += int64(len(line))
		l.records++
	}
	return l.truncateTail()
}

// truncateTail cuts the file after its last complete record, so that writing continues there.
func (l *wal) truncateTail() error {
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	_, err := l.file.Seek(l.size, io.SeekStart)
	return err
}

// Append writes one record. After an error the record is not in the log; if a torn
// record cannot be removed, every later Append fails.
func (l *wal) Append(record any) error {
	if l == nil {
		return nil
	}
	if l.writeErr != nil {
		return l.writeErr
	}
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		if undo := l.truncateTail(); undo != nil {
			l.writeErr = fmt.Errorf("log %s cannot be written: %w", l.file.Name(), errors.Join(err, undo))
		}
		return err
	}
	l.size += int64(len(line)) + 1
	l.records++
	return nil
}

// compactionSlack is how many outdated records are kept before a compaction.
const compactionSlack = 5_000

// needsCompaction reports whether most records are outdated, given how many are live.
func (l *wal) needsCompaction(live int) bool { return l != nil && l.records > compactionSlack+2*live }

// Compact replaces all records. It renames a complete new file over the old one: a
// crash before that leaves the old file, which has the same state. After an error
// the old file stays in use.
func (l *wal) Compact(live iter.Seq[any]) error {
	if l == nil || l.writeErr != nil {
		return nil
	}
	path := filepath.Join(l.dir, walNextFileName)
	next, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	size, records := int64(0), 0
	out := bufio.NewWriterSize(next, 1<<20)
	for record := range live {
		line, err := json.Marshal(record)
		if err != nil {
			return errors.Join(err, next.Close())
		}
		n, err := out.Write(append(line, '\n'))
		if err != nil {
			return errors.Join(err, next.Close())
		}
		size += int64(n)
		records++
	}
	if err := out.Flush(); err != nil {
		return errors.Join(err, next.Close())
	}
	if err := os.Rename(path, filepath.Join(l.dir, walFileName)); err != nil {
		return errors.Join(err, next.Close())
	}
	old := l.file
	l.file, l.size, l.records = next, size, records
	return old.Close()
}

// Close releases the directory. The records stay.
func (l *wal) Close() error {
	if l == nil {
		return nil
	}
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	return errors.Join(err, l.lock.Close())
}
