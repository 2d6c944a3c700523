package simulator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Cut says what is left out of a play, to make it short. The zero value leaves
// nothing out. Its text is what the command takes.
type Cut struct {
	Actions  []int    // by number
	MaxFault int      // faults with a higher number do not strike; 0 is all may, -1 none
	Faults   []int    // nor do these
	Steps    []string // as DEFINITION.LABEL
}

// allowsFault reports whether a fault may strike.
func (c *Cut) allowsFault(n int) bool {
	return (c.MaxFault == 0 || n <= c.MaxFault) && !slices.Contains(c.Faults, n)
}

// cutSteps are the steps that are left out of a definition.
func (c *Cut) cutSteps(definition string) (labels []string) {
	for _, s := range c.Steps {
		if name, label, _ := strings.Cut(s, "."); name == definition {
			labels = append(labels, label)
		}
	}
	return labels
}

// String is "actions:1,2;after:9;faults:3,4;steps:w1.s2", each part where it says
// something.
func (c Cut) String() string {
	var parts []string
	part := func(name string, values []string) {
		if len(values) > 0 {
			parts = append(parts, name+":"+strings.Join(values, ","))
		}
	}
	part("actions", formatInts(c.Actions))
	if c.MaxFault != 0 {
		part("after", formatInts([]int{c.MaxFault}))
	}
	part("faults", formatInts(c.Faults))
	part("steps", c.Steps)
	return strings.Join(parts, ";")
}

func formatInts(numbers []int) (all []string) {
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// ParseCut reads what String writes.
func ParseCut(text string) (c Cut, err error) {
	if text == "" {
		return c, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		name, list, _ := strings.Cut(part, ":")
		values := strings.Split(list, ",")
		switch name {
		case "actions":
			c.Actions, err = parseInts(values)
		case "faults":
			c.Faults, err = parseInts(values)
		case "after":
			c.MaxFault, err = strconv.Atoi(list)
		case "steps":
			c.Steps = values
		default:
			err = fmt.Errorf("want actions, after, faults or steps, not %q", name)
		}
		if err != nil {
			return c, fmt.Errorf("this is no cut: %q: %w", text, err)
		}
	}
	return c, nil
}

func parseInts(values []string) (all []int, err error) {
	for _, v := range values {
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
