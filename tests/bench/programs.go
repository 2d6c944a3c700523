package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programTimes returns the processor time so far of each program of the stack, and of this one, which has the
// client and the block. A function is named after its directory; what is lockstep is the local queues, the
// gateway and the host of the functions.
func (s *stack) programTimes() (map[string]time.Duration, error) {
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			return nil, err
		}
	}
	own := func(pid int) bool {
		for ; pid > 1; pid = parents[pid] {
			if pid == s.program.PID() {
				return true
			}
		}
		return false
	}
	all := map[string]time.Duration{}
	if all["bench"], err = processorTime(os.Getpid()); err != nil {
		return nil, err
	}
	for pid := range parents {
		if !own(pid) {
			continue
		}
		file, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			continue // it has ended
		}
		name := filepath.Base(file)
		if name == "bootstrap" {
			name = filepath.Base(filepath.Dir(file))
		}
		used, err := processorTime(pid)
		if err != nil {
			continue
		}
		all[name] += used
	}
	return all, nil
}

// printProgramTimes prints how much processor time each program has used since, for n units of work.
func (s *stack) printProgramTimes(out io.Writer, name, unit string, since map[string]time.Duration, n int) error {
	now, err := s.programTimes()
	if err != nil {
		return err
	}
	for _, program := range slices.Sorted(maps.Keys(now)) {
		printFigure(out, name+"_cpu_"+program, milliseconds(now[program]-since[program])/float64(n), "ms per "+unit)
	}
	return nil
}
