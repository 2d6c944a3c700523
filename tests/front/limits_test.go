package front

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
	what, most string
	n          int
	status     int    // of one more; 0 of what a run ends with
	code       string // of the problem, of one of its issues, or of the run's failure
}

var (
	rowRE  = regexp.MustCompile("^\\| ([^|]+) \\| ([^|]+) \\| (?:([0-9]{3}) )?`([A-Za-z_]+)` \\|$")
	unitRE = regexp.MustCompile(`^([0-9]+)(?: ([KM])iB)?$`)
)

// limits reads the page.
func limits(t *testing.T) (all []limit) {
	text, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := config.Default().Run
	for _, line := range strings.Split(string(text), "\n") {
		row := rowRE.FindStringSubmatch(line)
		if row == nil {
			if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "| what") && !strings.HasPrefix(line, "| ---") {
				t.Errorf("a row that cannot be read: %s", line)
			}
			continue
		}
		l := limit{what: row[1], most: row[2], code: row[4]}
		l.status, _ = strconv.Atoi(row[3]) // none is 0
		switch unit := unitRE.FindStringSubmatch(l.most); {
		case unit != nil:
			l.n, _ = strconv.Atoi(unit[1]) // it is of digits
			l.n <<= map[string]int{"K": 10, "M": 20}[unit[2]]
		case l.most == "`run.maxEntities`":
			l.n = defaults.MaxEntities
		case l.most == "`run.maxSteps`":
			l.n = defaults.MaxSteps
		default:
			t.Errorf("%s: %q is no number", l.what, l.most)
		}
		all = append(all, l)
	}
	return all
}

// probe asks for n of something. At the limit the answer has the status, below
// 300 if that is 0.
type probe struct {
	ask func(w *world, n int) answer
	at  int
}

func list(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return strings.Join(items, ",")
}

func same(text string) func(int) string { return func(int) string { return text } }

func post(path, format string, what func(n int) string) probe {
	return probe{ask: func(w *world, n int) answer { return w.ask("POST", path, strings.Replace(format, "*", what(n), 1)) }}
}

func get(format string, what func(n int) string) probe {
	return probe{ask: func(w *world, n int) answer { return w.ask("GET", strings.Replace(format, "*", what(n), 1), "") }}
}

func (p probe) answers(status int) probe { p.at = status; return p }

func xs(n int) string { return strings.Repeat("x", n) }

func fill(text string, n int) string { return text + strings.Repeat("\n", n-len(text)) }

const nobody = "/workflow-execution/nobody"

// requests are those about what a request may hold.
var requests = map[string]probe{
	"body of a request":    post(nobody+"/resume", "*", func(n int) string { return fill("{}", n) }).answers(404),
	"body of a definition": post("/workflow-definition/publish?dryRun=true", "*", func(n int) string { return fill(oneStep, n) }),
	"body of an import":    post("/entities/import", "*", func(n int) string { return fill(lineOf, n) }),
	"line of an import":    post("/entities/import", "*", func(n int) string { return lineOf + strings.Repeat(" ", n-len(lineOf)-1) + "\n" }),
	"entities of an import": post("/entities/import", "*", func(n int) string {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "{\"type\":\"d\",\"id\":\"e%d\"}\n", i)
		}
		return lines.String()
	}),
	"nesting of a body": post("/workflow-execution", `{"workflow":"p/nobody","parameters":{"a":*}}`, func(n int) string {
		return strings.Repeat("[", n-2) + "1" + strings.Repeat("]", n-2)
	}).answers(404),
	"items of a page":                   get("/locks?limit=*", strconv.Itoa),
	"characters of a page token":        get("/locks?pageToken=*", xs).answers(400),
	"characters of a reason":            post(nobody+"/cancel", `{"reason":"*"}`, xs).answers(404),
	"labels of a run":                   post("/workflow-execution", `{"workflow":"p/nobody","labels":{*}}`, func(n int) string { return list(n, func(i int) string { return fmt.Sprintf(`"l%d":""`, i) }) }).answers(404),
	"characters of a label's name":      post("/workflow-execution", `{"workflow":"p/nobody","labels":{"*":""}}`, xs).answers(404),
	"characters of a label's value":     post("/workflow-execution", `{"workflow":"p/nobody","labels":{"a":"*"}}`, xs).answers(404),
	"labels in a filter":                get("/workflow-execution?*", func(n int) string { return strings.ReplaceAll(list(n, same("label=a:b")), ",", "&") }),
	"characters of a query":             get("/entities?type=device&query=*", func(n int) string { return "true" + strings.Repeat("%20", n-4) }),
	"groups in a filter":                get("/entities?type=device&*", func(n int) string { return strings.ReplaceAll(list(n, same("group=a")), ",", "&") }),
	"characters of a package or a name": get("/workflow-definition/p/*", xs).answers(404),
	"characters of a type or an id":     get("/entities/device/*", xs).answers(404),
	"groups of an entity": {ask: func(w *world, n int) answer {
		return w.ask("PUT", "/entities/device/d1", `{"groups":[`+list(n, func(i int) string { return fmt.Sprintf(`"g%d"`, i) })+`]}`)
	}},
	"attributes of an entity": {ask: func(w *world, n int) answer {
		return w.ask("PUT", "/entities/device/d1", `{"attributes":{"a":"`+xs(n-8)+`"}}`)
	}},
	"headers of an HTTP block": post("/function-blocks/register", `{"package":"p","name":"h","version":"1.0.0","http":{"url":"http://127.0.0.1/","headers":{*}}}`, func(n int) string {
		return list(n, func(i int) string { return fmt.Sprintf(`"H%d":"v"`, i) })
	}),
	"characters of a block's description": post("/function-blocks/register", `{"package":"p","name":"d","version":"1.0.0","description":"*"}`, xs),
	"blocks of a worker":                  post("/workers/register", `{"blocks":[*]}`, func(n int) string { return list(n, func(i int) string { return fmt.Sprintf(`"p/b%d:1"`, i) }) }),
	"results in one push":                 post("/blackboard/job/result", `{"pack":"x","token":1,"results":[*]}`, func(n int) string { return list(n, same(`{"job":"j"}`)) }).answers(400),
	"groups of a run's selection":         post("/workflow-execution", `{"workflow":"p/nobody","executeOnParameters":{"groups":[*]}}`, func(n int) string { return list(n, same(`"g"`)) }).answers(404),
	"characters of an Idempotency-Key": {at: 404, ask: func(w *world, n int) answer {
		return w.ask("POST", "/workflow-execution", `{"workflow":"p/nobody"}`, "Idempotency-Key: "+xs(n))
	}},
}

// defined publishes, without keeping it, a definition with something more at
// its root and in its one step.
func defined(root, step func(n int) string) probe {
	return probe{ask: func(w *world, n int) answer {
		text := `{"package":"p","name":"l","version":"1.0.0","steps":[{"label":"one","functionBlock":"p/pure:1","runOn":"device"%s}]%s}`
		more := func(f func(int) string) string {
			if f == nil {
				return ""
			}
			return "," + f(n)
		}
		return w.ask("POST", "/workflow-definition/publish?dryRun=true", fmt.Sprintf(text, more(step), more(root)))
	}}
}

func field(format string, what func(n int) string) func(int) string {
	return func(n int) string { return strings.Replace(format, "*", what(n), 1) }
}

// steps publishes a definition of these steps.
func steps(what func(n int) string) probe {
	return probe{ask: func(w *world, n int) answer {
		return w.ask("POST", "/workflow-definition/publish?dryRun=true", `{"package":"p","name":"l","version":"1.0.0","steps":[`+what(n)+`]}`)
	}}
}

func step(i int, more string) string {
	return fmt.Sprintf(`{"label":"s%d","functionBlock":"p/pure:1","runOn":"device"%s}`, i, more)
}

var published = map[string]probe{
	"steps": steps(func(n int) string { return list(n, func(i int) string { return step(i, "") }) }),
	"nesting of steps in steps": steps(func(n int) string {
		text := step(0, "")
		for i := range n {
			text = fmt.Sprintf(`{"label":"w%d","workflow":{"steps":[%s]}}`, i, text)
		}
		return text
	}),
	"nesting of the document": defined(nil, field(`"rawParameters":{"a":*}`, func(n int) string { return strings.Repeat("[", n-4) + "1" + strings.Repeat("]", n-4) })),
	"fields of the document": {ask: func(w *world, n int) answer {
		var text strings.Builder
		text.WriteString("package: p\nname: l\nversion: 1.0.0\nsteps:\n  - label: one\n    functionBlock: p/pure:1\n    runOn: device\n    rawParameters:\n")
		for i := range n - 8 {
			fmt.Fprintf(&text, "      a%d: 1\n", i)
		}
		return w.ask("POST", "/workflow-definition/publish?dryRun=true", text.String())
	}},
	"labels":                      defined(field(`"labels":{*}`, func(n int) string { return list(n, func(i int) string { return fmt.Sprintf(`"l%d":"v"`, i) }) }), nil),
	"characters of a description": defined(field(`"description":"*"`, xs), nil),
	"entries of acquire":          defined(field(`"acquire":[*]`, func(n int) string { return list(n, same(`{"type":"device","ids":["a"]}`)) }), nil),
	"ids of an acquire":           defined(field(`"acquire":[{"type":"device","ids":[*]}]`, func(n int) string { return list(n, func(i int) string { return fmt.Sprintf(`"e%d"`, i) }) }), nil),
	"asserts of a step":           defined(nil, field(`"assert":[*]`, func(n int) string { return list(n, same(`"true"`)) })),
	"bytes of an expression":      defined(nil, field(`"condition":"*"`, func(n int) string { return "true" + strings.Repeat(" ", n-4) })),
	"nesting of an expression":    defined(nil, field(`"condition":"*"`, func(n int) string { return strings.Repeat("(", n-1) + "true" + strings.Repeat(")", n-1) })),
	"retries":                     defined(nil, field(`"retry":{"maxRetries":*}`, strconv.Itoa)),
	"repetitions":                 defined(nil, field(`"repeat":{"count":*}`, strconv.Itoa)),
	"minutes of a job's time-out": defined(nil, field(`"timeout":"*m"`, strconv.Itoa)),
	"hours of a wait":             defined(nil, field(`"delay":"*h"`, strconv.Itoa)),
	"expressions": steps(func(n int) string {
		return list((n+9)/10, func(i int) string { return step(i, `,"assert":[`+list(min(10, n-10*i), same(`"true"`))+`]`) })
	}),
	"bytes of all expressions": steps(func(n int) string {
		const each = 4000
		return list(n/each+1, func(i int) string {
			return step(i, `,"condition":"true`+strings.Repeat(" ", min(each, n-each*i)-4)+`"`)
		})
	}),
}

// TestLimits: at each limit that docs/limits.md names all is well; with one more
// the answer is what the page says. A row that nobody can try, and a limit that
// the page does not name, fail.
func TestLimits(t *testing.T) {
	w := open(t, 1)
	rows := map[string]bool{}
	for _, l := range limits(t) {
		rows[l.what] = true
		p, known := requests[l.what]
		if !known {
			p, known = published[l.what]
		}
		if !known {
			if runs[l.what] == nil {
				t.Errorf("nobody tries the limit %q", l.what)
			}
			continue
		}
		t.Run(l.what, func(t *testing.T) {
			if a := p.ask(w, l.n); a.status != p.at && (p.at != 0 || a.status >= 300) || (p.at == 400 && said(a, l.code)) {
				t.Errorf("at the limit of %s: %.600s", l.most, a)
			}
			a := p.ask(w, l.n+1)
			if a.status != l.status || !said(a, l.code) || a.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("one more than %s, want %d %s: %.600s", l.most, l.status, l.code, a)
			}
		})
	}
	for _, what := range slices.Concat(sorted(requests), sorted(published), sorted(runs)) {
		if !rows[what] {
			t.Errorf("docs/limits.md does not name the limit %q", what)
		}
	}
}

// said tells whether a problem has a code, or one of its issues does.
func said(a answer, code string) bool {
	var p struct {
		Code   string
		Errors []struct{ Code string }
	}
	_ = json.Unmarshal(a.body, &p) // what is no problem has no code
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
