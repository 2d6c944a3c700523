package sqs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func openTestWAL(t *testing.T, dir string) (*wal, []string) {
	t.Helper()
	var got []string
	l, err := openWAL(dir, func(record []byte) error {
		got = append(got, string(record))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, got
}

func appendRecords(t *testing.T, l *wal, records ...any) {
	t.Helper()
	for _, r := range records {
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWAL_ReplaysRecordsInOrder(t *testing.T) {
	dir := t.TempDir()
	l, _ := openTestWAL(t, dir)
	appendRecords(t, l, 1, "two\nlines", []int{3})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got := openTestWAL(t, dir); !slices.Equal(got, []string{"1", `"two\nlines"`, "[3]"}) {
		t.Fatalf("got %q", got)
	}
}

// A crash at any byte of a write leaves the records before it, and the log can be
// continued.
func TestWAL_DropsTornLastRecord(t *testing.T) {
	complete := "1\n\"second\"\n"
	for cut := range len(complete) {
		dir := t.TempDir()
		path := filepath.Join(dir, "messages.log")
		if err := os.WriteFile(path, []byte(complete[:cut]), 0o644); err != nil {
			t.Fatal(err)
		}
		l, got := openTestWAL(t, dir)
		if want := strings.Count(complete[:cut], "\n"); len(got) != want {
			t.Errorf("cut at %d: %q, want %d records", cut, got, want)
		}
		appendRecords(t, l, "after")
		_ = l.Close()
		if _, again := openTestWAL(t, dir); len(again) != len(got)+1 || again[len(got)] != `"after"` {
			t.Errorf("cut at %d: then %q", cut, again)
		}
	}
}

func TestWAL_RejectsDamagedRecord(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "messages.log"), []byte("1\n{\"a\n3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := openWAL(dir, func([]byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "record 2 is damaged") {
		t.Fatalf("got %v, want an error about record 2", err)
	}
	// A failed open releases the directory.
	if err := os.Truncate(filepath.Join(dir, "messages.log"), 2); err != nil {
		t.Fatal(err)
	}
	openTestWAL(t, dir)
}

func TestWAL_RejectsSecondOwner(t *testing.T) {
	dir := t.TempDir()
	openTestWAL(t, dir)
	if _, err := openWAL(dir, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got %v, want an error that the log is in use", err)
	}
}

func TestWAL_CompactionKeepsLiveRecords(t *testing.T) {
	dir := t.TempDir()
	l, _ := openTestWAL(t, dir)
	for i := range 5_003 {
		appendRecords(t, l, i)
	}
	if l.needsCompaction(2) || !l.needsCompaction(1) {
		t.Fatal("needsCompaction: want false with 2 live of 5003 records, true with 1")
	}
	err := l.Compact(slices.Values([]any{"live"}))
	if err != nil {
		t.Fatal(err)
	}
	if l.needsCompaction(0) {
		t.Error("the log needs compaction right after one")
	}
	appendRecords(t, l, "later")
	_ = l.Close()
	if _, got := openTestWAL(t, dir); !slices.Equal(got, []string{`"live"`, `"later"`}) {
		t.Fatalf("got %q", got)
	}
}

func TestWAL_FailedCompactionLosesNothing(t *testing.T) {
	dir := t.TempDir()
	l, _ := openTestWAL(t, dir)
	appendRecords(t, l, 1)
	if err := l.Compact(slices.Values([]any{func() {}})); err == nil {
		t.Fatal("compaction wrote a record that cannot be encoded")
	}
	if err := l.Append(func() {}); err == nil {
		t.Fatal("Append wrote a record that cannot be encoded")
	}
	appendRecords(t, l, 2)
	_ = l.Close()
	if _, got := openTestWAL(t, dir); fmt.Sprint(got) != "[1 2]" {
		t.Fatalf("got %q", got)
	}
}

func TestWAL_NilKeepsNothing(t *testing.T) {
	var none *wal
	appendRecords(t, none, 1)
	if none.needsCompaction(0) || none.Compact(nil) != nil || none.Close() != nil {
		t.Error("a nil log does something")
	}
}
