package front

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockstep-run/lockstep/shared/api/document"
)

// route is one operation of the document.
type route struct {
	method, path string
	planned      bool
	open         bool // to everybody, whoever asks
	parameters   []parameter
	body         map[string]any // schema of a JSON body
	anyBody      bool           // takes a body of any content type
	needsBody    bool
	responses    map[string]any
}

func (r route) String() string { return r.method + " " + r.path }

type parameter struct {
	name, in string
	required bool
	schema   map[string]any
}

var (
	root = sync.OnceValue(func() map[string]any {
		var v map[string]any
		if err := json.Unmarshal(document.JSON, &v); err != nil {
			panic(err)
		}
		return v
	})
	compiler = sync.OnceValue(func() *jsonschema.Compiler {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document.JSON))
		if err != nil {
			panic(err)
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		c.AssertFormat()
		if err := c.AddResource("test:///openapi.json", doc); err != nil {
			panic(err)
		}
		return c
	})
)

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

// resolve follows references within the document to what they mean.
func resolve(in map[string]any, v any) map[string]any {
	s := object(v)
	for {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		var at any = in
		for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at = object(at)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
		next := object(at)
		if next == nil {
			panic("the document refers to nothing: " + ref)
		}
		s = next
	}
}

// routes are all operations of the document, in a fixed order.
func routes() (all []route) {
	for path, item := range object(root()["paths"]) {
		for method, v := range object(item) {
			if method == "parameters" {
				continue
			}
			op := object(v)
			r := route{method: strings.ToUpper(method), path: path, responses: object(op["responses"])}
			tags, _ := op["tags"].([]any)
			r.planned = slices.Contains(tags, any("planned"))
			security, said := op["security"].([]any)
			r.open = said && len(security) == 0
			own, _ := op["parameters"].([]any)
			shared, _ := object(item)["parameters"].([]any)
			for _, p := range append(slices.Clone(own), shared...) {
				spec := resolve(root(), p)
				required, _ := spec["required"].(bool)
				r.parameters = append(r.parameters, parameter{spec["name"].(string), spec["in"].(string), required, object(spec["schema"])})
			}
			if body := object(op["requestBody"]); body != nil {
				r.needsBody, _ = body["required"].(bool)
				if media := object(object(body["content"])["application/json"]); media != nil {
					r.body = object(media["schema"])
				} else {
					r.anyBody = true
				}
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b route) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return all
}

// everywhere are the statuses that any route may answer without naming them: who
// asks is not known or may not, nobody serves this yet, or not now.
var everywhere = []int{401, 403, 501, 503}

// broken says what is wrong with an answer: a status that the route does not
// document, a body that is not of its schema, a refusal that is no problem.
func (r route) broken(a answer) string {
	key := fmt.Sprint(a.status)
	if r.responses[key] == nil {
		if a.status < 400 || !slices.Contains(everywhere, a.status) {
			return "an undocumented status"
		}
		key = "default"
	}
	if a.status == 501 && !r.planned {
		return "not implemented"
	}
	at := "/paths/" + strings.ReplaceAll(r.path, "/", "~1") + "/" + strings.ToLower(r.method) + "/responses/" + key
	response := object(r.responses[key])
	if ref, ok := response["$ref"].(string); ok {
		at, response = strings.TrimPrefix(ref, "#"), resolve(root(), response)
	}
	for name := range object(response["headers"]) {
		if a.header.Get(name) == "" {
			return "no header " + name
		}
	}
	content := object(response["content"])
	if content == nil {
		if len(a.body) > 0 {
			return "a body that is not documented"
		}
		return ""
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if content[media] == nil {
		return "an undocumented content type " + media
	}
	if a.status >= 400 && media != "application/problem+json" {
		return "a refusal that is no problem"
	}
	if media == "text/html" {
		return ""
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		return err.Error()
	}
	if a.status >= 400 {
		p := object(v)
		if fmt.Sprint(p["status"]) != fmt.Sprint(a.status) || p["code"] == "" || p["detail"] == "" || p["title"] == "" {
			return "a problem that does not say what it is"
		}
	}
	parts := strings.Split(at+"/content/"+strings.ReplaceAll(media, "/", "~1")+"/schema", "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	schema, err := compiler().Compile("test:///openapi.json#" + strings.Join(parts, "/"))
	if err != nil {
		panic(err)
	}
	if err := schema.Validate(v); err != nil {
		return err.Error()
	}
	return ""
}

// TestRoutes: the document is read as it is meant.
func TestRoutes(t *testing.T) {
	all := routes()
	if len(all) < 45 {
		t.Errorf("only %d routes were found", len(all))
	}
	if len(all) != len(document.Open().Operations) {
		t.Errorf("%d routes here, %d in what is served", len(all), len(document.Open().Operations))
	}
}
