package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
)

var updateExamples = flag.Bool("update", false, "rewrite openapi/examples.json; go generate ./shared/api then puts them into the document")

const examplesFile = "openapi/examples.json"

// anExample is an answer of one operation, and where the document has it.
type anExample struct {
	Status string          `json:"status"`
	Media  string          `json:"media"`
	Answer json.RawMessage `json:"answer"`
}

// withoutExample are the operations whose answer is a document of its own: the page, this document, and the schema of
// definitions, which is docs/definition.schema.json.
var withoutExample = map[string]bool{"GET /": true, "GET /openapi.json": true, "GET /workflow-definition/schema": true}

// recordExamples are the answers to the first valid request of each route.
func recordExamples(t *testing.T) map[string]anExample {
	t.Helper()
	all := map[string]anExample{}
	for _, c := range servedRoutes {
		if _, seen := all[c.pattern]; seen || withoutExample[c.pattern] || c.status >= 300 {
			continue
		}
		f := newFake()
		f.next = "bW9yZQ"
		method, _, _ := strings.Cut(c.pattern, " ")
		w := sendRequest(newHandler(f, withMonitor), method+" "+c.target, c.body)
		if w.Body.Len() == 0 {
			continue
		}
		media := w.Header().Get("Content-Type")
		if !json.Valid(w.Body.Bytes()) {
			text, _, _ := strings.Cut(w.Body.String(), "\n")
			answer, _ := json.Marshal(text)
			all[c.pattern] = anExample{strconv.Itoa(w.Code), media, answer}
			continue
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, bytes.TrimSpace(w.Body.Bytes()), "", " "); err != nil {
			t.Fatal(err)
		}
		all[c.pattern] = anExample{strconv.Itoa(w.Code), media, indented.Bytes()}
	}
	return all
}

// The document has an example of what each operation answers, which is what the routes answer, and matches the
// schema. go test ./shared/api -run TestExamples -update and go generate ./shared/api write them anew.
func TestExamples_AreAnswersOfTheRoutes(t *testing.T) {
	recorded := recordExamples(t)
	if *updateExamples {
		text, err := json.MarshalIndent(recorded, "", " ")
		if err == nil {
			err = os.WriteFile(examplesFile, append(text, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	for pattern := range openapi.Load().Operations {
		method, path, _ := strings.Cut(pattern, " ")
		responses := asObject(asObject(asObject(asObject(openAPI()["paths"])[path])[strings.ToLower(method)])["responses"])
		want, found := recorded[pattern]
		if !found {
			for status, r := range responses {
				if strings.HasPrefix(status, "2") && asObject(r)["content"] != nil && !withoutExample[pattern] {
					t.Errorf("%s: no valid request shows what it answers with %s", pattern, status)
				}
			}
			continue
		}
		got, has := asObject(asObject(asObject(responses[want.Status])["content"])[want.Media])["example"]
		if !has {
			t.Errorf("%s: the document has no example", pattern)
			continue
		}
		var answer any
		if err := json.Unmarshal(want.Answer, &answer); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(answer, got); diff != "" {
			t.Errorf("%s: the example is out of date: %s", pattern, diff)
		}
		if strings.HasPrefix(want.Media, "text/") {
			continue
		}
		at := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + strings.ToLower(method) + "/responses/" + want.Status
		schema := openapi.Load().CompileSchema(at + "/content/" + strings.ReplaceAll(want.Media, "/", "~1") + "/schema")
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(want.Answer))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
