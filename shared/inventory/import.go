package inventory

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ReadImport reads an import, hands every entity to each, and lists what is wrong with its
// lines, until there are as many mistakes as can be shown. An error is that of each or
// of the reader.
func ReadImport(r io.Reader, maxIssues int, handle func(workflow.Entity) error) (issues []workflow.Issue, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), MaxLineBytes)
	seen := map[workflow.EntityKey]int{}
	n := 0
	for len(issues) < maxIssues && lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, bad := ParseLine(line)
		if err := handle(e); err != nil {
			return nil, err
		}
		if at, duplicate := seen[e.Key()]; duplicate && len(bad) == 0 {
			bad = []workflow.Issue{{Code: "duplicate", Message: fmt.Sprintf("%s stands on line %d already", e.Key(), at)}}
		}
		seen[e.Key()] = n
		for _, i := range bad {
			i.Line = n
			issues = append(issues, i)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		issues = append(issues, workflow.Issue{Line: n + 1, Code: "too_large", Message: fmt.Sprintf("a line holds at most %d bytes", MaxLineBytes)})
	} else if err != nil {
		return nil, err
	}
	return issues, nil
}
