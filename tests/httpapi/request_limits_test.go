package httpapi

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/config"
)

// limit is a row of docs/limits.md.
type limit struct {
	name, text string
	n          int
	status     int    // of the answer to one more; 0 if an execution fails instead
	code       string // of the problem, of one of its errors, or of the execution's failure
}

var (
	rowRE  = regexp.MustCompile("^\\| ([^|]+) \\| ([^|]+) \\| (?:([0-9]{3}) )?`([A-Za-z_]+)` \\|$")
	unitRE = regexp.MustCompile(`^([0-9]+)(?: ([KM])iB)?$`)
)

// readLimits reads docs/limits.md.
func readLimits(t *testing.T) (all []limit) {
	text, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := config.Default().Execution
	for _, line := range strings.Split(string(text), "\n") {
		row := rowRE.FindStringSubmatch(line)
		if row == nil {
			if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "| what") && !strings.HasPrefix(line, "| ---") {
				t.Errorf("row not understood: %s", line)
			}
			continue
		}
		l := limit{name: row[1], text: row[2], code: row[4]}
		l.status, _ = strconv.Atoi(row[3]) // 0 if there is none
		switch unit := unitRE.FindStringSubmatch(l.text); {
		case unit != nil:
			l.n, _ = strconv.Atoi(unit[1]) // only digits
			l.n <<= map[string]int{"K": 10, "M": 20}[unit[2]]
		case l.text == "`run.maxEntities`":
			l.n = defaults.MaxEntities
		case l.text == "`run.maxDescendants`":
			l.n = defaults.MaxDescendants
		case l.text == "`run.maxSteps`":
			l.n = defaults.MaxSteps
		case l.text == "`limits.steps`":
			l.n = 4
		case l.text == "`limits.wall`":
			l.n = 10 // minutes
		default:
			t.Errorf("%s: %q is not a number", l.name, l.text)
		}
		all = append(all, l)
	}
	return all
}

// probe sends a request with n of something. At the limit the answer has the status
// wantStatus, or one below 300 if that is 0.
type probe struct {
	send       func(f *fixture, n int) answer
	wantStatus int
}

func joinItems(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return strings.Join(items, ",")
}

func constant(text string) func(int) string { return func(int) string { return text } }

func postProbe(path, format string, value func(n int) string) probe {
	return probe{send: func(f *fixture, n int) answer { return f.do("POST", path, strings.Replace(format, "*", value(n), 1)) }}
}

func getProbe(format string, value func(n int) string) probe {
	return probe{send: func(f *fixture, n int) answer { return f.do("GET", strings.Replace(format, "*", value(n), 1), "") }}
}

func (p probe) expecting(status int) probe { p.wantStatus = status; return p }

func repeatX(n int) string { return strings.Repeat("x", n) }

func padTo(text string, n int) string { return text + strings.Repeat("\n", n-len(text)) }

const missingExecution = "/workflow-execution/missing"

// requestLimits are the limits of requests.
var requestLimits = map[string]probe{
	"body of a request":    postProbe(missingExecution+"/resume", "*", func(n int) string { return padTo("{}", n) }).expecting(404),
	"body of a definition": postProbe("/workflow-definition/publish?dryRun=true", "*", func(n int) string { return padTo(oneStepDefinition, n) }),
	"body of an import":    postProbe("/entities/import", "*", func(n int) string { return padTo(entityLine, n) }),
	"line of an import":    postProbe("/entities/import", "*", func(n int) string { return entityLine + strings.Repeat(" ", n-len(entityLine)) + "\n" }),
	"entities of an import": postProbe("/entities/import", "*", func(n int) string {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "{\"type\":\"d\",\"id\":\"e%d\"}\n", i)
		}
		return lines.String()
	}),
	"nesting of a body": postProbe("/workflow-execution", `{"workflow":"p/missing","parameters":{"a":*}}`, func(n int) string {
		return strings.Repeat("[", n-2) + "1" + strings.Repeat("]", n-2)
	}).expecting(404),
	"nesting of an answer and of the data of a signal": postProbe(missingExecution+"/signal/go", `{"data":*}`, func(n int) string {
		return strings.Repeat("[", n) + "1" + strings.Repeat("]", n)
	}).expecting(404),
	"items of a page":            getProbe("/locks?limit=*", strconv.Itoa),
	"characters of a page token": getProbe("/locks?pageToken=*", repeatX).expecting(400),
	"characters of a reason":     postProbe(missingExecution+"/cancel", `{"reason":"*"}`, repeatX).expecting(404),
	"labels of an execution":     postProbe("/workflow-execution", `{"workflow":"p/missing","labels":{*}}`, func(n int) string { return joinItems(n, func(i int) string { return fmt.Sprintf(`"l%d":""`, i) }) }).expecting(404),
	"bytes of metadata of an execution": {send: func(f *fixture, n int) answer {
		f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: kept\nversion: 1.0.0\nsteps: [{label: one, set: {a: '1'}}]\n")
		return f.do("POST", "/workflow-execution", `{"workflow":"p/kept","metadata":{"a":"`+repeatX(n-8)+`"}}`)
	}},
	"characters of a label's name":      postProbe("/workflow-execution", `{"workflow":"p/missing","labels":{"*":""}}`, repeatX).expecting(404),
	"characters of a label's value":     postProbe("/workflow-execution", `{"workflow":"p/missing","labels":{"a":"*"}}`, repeatX).expecting(404),
	"labels in a filter":                getProbe("/workflow-execution?*", func(n int) string { return strings.ReplaceAll(joinItems(n, constant("label=a:b")), ",", "&") }),
	"characters of a query":             getProbe("/entities?type=device&query=*", func(n int) string { return "true" + strings.Repeat("%20", n-4) }),
	"groups in a filter":                getProbe("/entities?type=device&*", func(n int) string { return strings.ReplaceAll(joinItems(n, constant("group=a")), ",", "&") }),
	"characters of a package or a name": getProbe("/workflow-definition/p/*", repeatX).expecting(404),
	"characters of a type or an id":     getProbe("/entities/device/*", repeatX).expecting(404),
	"groups of an entity": {send: func(f *fixture, n int) answer {
		return f.do("PUT", "/entities/device/d1", `{"groups":[`+joinItems(n, func(i int) string { return fmt.Sprintf(`"g%d"`, i) })+`]}`)
	}},
	"attributes that a patch names": {send: func(f *fixture, n int) answer {
		return f.do("PATCH", "/entities/device/d1", `{"remove":[`+joinItems(n, func(i int) string { return fmt.Sprintf(`"a%d"`, i) })+`]}`)
	}},
	"attributes of an entity": {send: func(f *fixture, n int) answer {
		return f.do("PUT", "/entities/device/d1", `{"attributes":{"a":"`+repeatX(n-8)+`"}}`)
	}},
	"headers of an HTTP block": postProbe("/function-blocks/register", `{"package":"p","name":"h","version":"1.0.0","http":{"url":"http://127.0.0.1/","headers":{*}}}`, func(n int) string {
		return joinItems(n, func(i int) string { return fmt.Sprintf(`"H%d":"v"`, i) })
	}),
	"characters of a block's description": postProbe("/function-blocks/register", `{"package":"p","name":"d","version":"1.0.0","description":"*"}`, repeatX),
	"blocks of a worker":                  postProbe("/workers/register", `{"blocks":[*]}`, func(n int) string { return joinItems(n, func(i int) string { return fmt.Sprintf(`"p/b%d:1"`, i) }) }),
	"results in one push":                 postProbe("/blackboard/job/result", `{"pack":"x","token":1,"results":[*]}`, func(n int) string { return joinItems(n, constant(`{"job":"j"}`)) }).expecting(400),
	"groups of an execution's selection":  postProbe("/workflow-execution", `{"workflow":"p/missing","executeOnParameters":{"groups":[*]}}`, func(n int) string { return joinItems(n, constant(`"g"`)) }).expecting(404),
	"characters of an Idempotency-Key": {wantStatus: 404, send: func(f *fixture, n int) answer {
		return f.do("POST", "/workflow-execution", `{"workflow":"p/missing"}`, "Idempotency-Key: "+repeatX(n))
	}},
}

// definitionWith checks a definition with added fields at its root and in its one step.
func definitionWith(root, step func(n int) string) probe {
	return probe{send: func(f *fixture, n int) answer {
		text := `{"package":"p","name":"l","version":"1.0.0","steps":[{"label":"one","functionBlock":"p/pure:1","runOn":"device"%s}]%s}`
		more := func(fields func(int) string) string {
			if fields == nil {
				return ""
			}
			return "," + fields(n)
		}
		return f.do("POST", "/workflow-definition/publish?dryRun=true", fmt.Sprintf(text, more(step), more(root)))
	}}
}

func replaceIn(format string, value func(n int) string) func(int) string {
	return func(n int) string { return strings.Replace(format, "*", value(n), 1) }
}

// definitionOfSteps checks a definition with these steps.
func definitionOfSteps(value func(n int) string) probe {
	return probe{send: func(f *fixture, n int) answer {
		return f.do("POST", "/workflow-definition/publish?dryRun=true", `{"package":"p","name":"l","version":"1.0.0","steps":[`+value(n)+`]}`)
	}}
}

func stepJSON(i int, more string) string {
	return fmt.Sprintf(`{"label":"s%d","functionBlock":"p/pure:1","runOn":"device"%s}`, i, more)
}

// definitionLimits are the limits of definitions.
var definitionLimits = map[string]probe{
	"steps": definitionOfSteps(func(n int) string { return joinItems(n, func(i int) string { return stepJSON(i, "") }) }),
	"nesting of steps in steps": definitionOfSteps(func(n int) string {
		text := stepJSON(0, "")
		for i := range n {
			text = fmt.Sprintf(`{"label":"w%d","workflow":{"steps":[%s]}}`, i, text)
		}
		return text
	}),
	"nesting of the document": definitionWith(nil, replaceIn(`"rawParameters":{"a":*}`, func(n int) string { return strings.Repeat("[", n-4) + "1" + strings.Repeat("]", n-4) })),
	"fields of the document": {send: func(f *fixture, n int) answer {
		var text strings.Builder
		text.WriteString("package: p\nname: l\nversion: 1.0.0\nsteps:\n  - label: one\n    functionBlock: p/pure:1\n    runOn: device\n    rawParameters:\n")
		for i := range n - 8 {
			fmt.Fprintf(&text, "      a%d: 1\n", i)
		}
		return f.do("POST", "/workflow-definition/publish?dryRun=true", text.String())
	}},
	"labels":                      definitionWith(replaceIn(`"labels":{*}`, func(n int) string { return joinItems(n, func(i int) string { return fmt.Sprintf(`"l%d":"v"`, i) }) }), nil),
	"characters of a description": definitionWith(replaceIn(`"description":"*"`, repeatX), nil),
	"entries of acquire":          definitionWith(replaceIn(`"acquire":[*]`, func(n int) string { return joinItems(n, constant(`{"type":"device","ids":["a"]}`)) }), nil),
	"ids of an acquire":           definitionWith(replaceIn(`"acquire":[{"type":"device","ids":[*]}]`, func(n int) string { return joinItems(n, func(i int) string { return fmt.Sprintf(`"e%d"`, i) }) }), nil),
	"asserts of a step":           definitionWith(nil, replaceIn(`"assert":[*]`, func(n int) string { return joinItems(n, constant(`"true"`)) })),
	"cases of a switch": definitionOfSteps(func(n int) string {
		return `{"label":"one","switch":[` + joinItems(n, constant(`{"when":"true","next":"end"}`)) + `]}`
	}),
	"steps that a step requires": definitionOfSteps(func(n int) string {
		return stepJSON(1, "") + "," + stepJSON(2, `,"requires":[`+joinItems(n, constant(`"s1"`))+`]`)
	}),
	"variables that a definition sets": definitionOfSteps(func(n int) string {
		return `{"label":"one","set":{` + joinItems(n, func(i int) string { return fmt.Sprintf(`"v%d":1`, i) }) + `}}`
	}),
	"names in the path of a variable": definitionOfSteps(func(n int) string { return `{"label":"one","set":{"a` + strings.Repeat(".a", n-1) + `":1}}` }),
	"bytes of an expression":          definitionWith(nil, replaceIn(`"condition":"*"`, func(n int) string { return "true" + strings.Repeat(" ", n-4) })),
	"nesting of an expression":        definitionWith(nil, replaceIn(`"condition":"*"`, func(n int) string { return strings.Repeat("(", n-1) + "true" + strings.Repeat(")", n-1) })),
	"retries":                         definitionWith(nil, replaceIn(`"retry":{"maxRetries":*}`, strconv.Itoa)),
	"repetitions":                     definitionWith(nil, replaceIn(`"repeat":{"count":*}`, strconv.Itoa)),
	"minutes of a job's timeout":      definitionWith(nil, replaceIn(`"timeout":"*m"`, strconv.Itoa)),
	"hours of a wait":                 definitionWith(nil, replaceIn(`"delay":"*h"`, strconv.Itoa)),
	"shares of a rollout": definitionOfSteps(func(n int) string {
		shares := joinItems(n, func(i int) string { return strconv.Itoa(i + 1) })
		return `{"label":"all","rollout":{"batches":[` + shares + `]},"workflow":{"steps":[` + stepJSON(1, "") + `]}}`
	}),
	"expressions": definitionOfSteps(func(n int) string {
		return joinItems((n+9)/10, func(i int) string {
			return stepJSON(i, `,"assert":[`+joinItems(min(10, n-10*i), constant(`"true"`))+`]`)
		})
	}),
	"bytes of all expressions": definitionOfSteps(func(n int) string {
		const each = 4000
		return joinItems(n/each+1, func(i int) string {
			return stepJSON(i, `,"condition":"true`+strings.Repeat(" ", min(each, n-each*i)-4)+`"`)
		})
	}),
}

// At each limit of docs/limits.md a request succeeds; with one more, the answer is as
// documented. Every row of the page has a probe, and every probe has a row.
func TestAPI_RequestLimitsHold(t *testing.T) {
	f := newFixture(t, 1)
	rows := map[string]bool{}
	for _, l := range readLimits(t) {
		rows[l.name] = true
		p, known := requestLimits[l.name]
		if !known {
			p, known = definitionLimits[l.name]
		}
		if !known {
			if executionLimits[l.name] == nil {
				t.Errorf("no test for the limit %q", l.name)
			}
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			if a := p.send(f, l.n); a.status != p.wantStatus && (p.wantStatus != 0 || a.status >= 300) || (p.wantStatus == 400 && hasCode(a, l.code)) {
				t.Errorf("at the limit of %s: %.600s", l.text, a)
			}
			a := p.send(f, l.n+1)
			if a.status != l.status || !hasCode(a, l.code) || a.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("one more than %s: want %d %s, got %.600s", l.text, l.status, l.code, a)
			}
		})
	}
	for _, name := range slices.Concat(sortedKeys(requestLimits), sortedKeys(definitionLimits), sortedKeys(executionLimits)) {
		if !rows[name] {
			t.Errorf("docs/limits.md has no row for %q", name)
		}
	}
}

// hasCode reports whether a problem, or one of its errors, has a code.
func hasCode(a answer, code string) bool {
	var p struct {
		Code   string
		Errors []struct{ Code string }
	}
	_ = json.Unmarshal(a.body, &p) // an answer that is not a problem has no code
	if p.Code == code {
		return true
	}
	for _, e := range p.Errors {
		if e.Code == code {
			return true
		}
	}
	return false
}
