package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
)

// route is one operation of the OpenAPI document.
type route struct {
	method, path string
	planned      bool
	public       bool // without authentication
	parameters   []parameter
	body         map[string]any // schema of the JSON body
	anyBody      bool           // accepts a body of any content type
	needsBody    bool
	responses    map[string]any
}

func (r route) String() string { return r.method + " " + r.path }

type parameter struct {
	name, in string
	required bool
	schema   map[string]any
}

var openAPI = sync.OnceValue(func() map[string]any {
	var v map[string]any
	if err := json.Unmarshal(openapi.JSON, &v); err != nil {
		panic(err)
	}
	return v
})

// asObject returns nil for a value that is not a JSON object.
func asObject(v any) map[string]any { m, _ := v.(map[string]any); return m }

// resolve follows references within a document.
func resolve(document map[string]any, v any) map[string]any {
	s := asObject(v)
	for {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		var at any = document
		for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at = asObject(at)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
		next := asObject(at)
		if next == nil {
			panic("missing reference: " + ref)
		}
		s = next
	}
}

// documentedRoutes returns all operations of the document, in a fixed order.
func documentedRoutes() (all []route) {
	for path, item := range asObject(openAPI()["paths"]) {
		for method, v := range asObject(item) {
			if method == "parameters" {
				continue
			}
			op := asObject(v)
			r := route{method: strings.ToUpper(method), path: path, responses: asObject(op["responses"])}
			tags, _ := op["tags"].([]any)
			r.planned = slices.Contains(tags, any("planned"))
			security, set := op["security"].([]any)
			r.public = set && len(security) == 0
			own, _ := op["parameters"].([]any)
			shared, _ := asObject(item)["parameters"].([]any)
			for _, p := range append(slices.Clone(own), shared...) {
				spec := resolve(openAPI(), p)
				required, _ := spec["required"].(bool)
				r.parameters = append(r.parameters, parameter{spec["name"].(string), spec["in"].(string), required, asObject(spec["schema"])})
			}
			if body := asObject(op["requestBody"]); body != nil {
				r.needsBody, _ = body["required"].(bool)
				if media := asObject(asObject(body["content"])["application/json"]); media != nil {
					r.body = asObject(media["schema"])
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

// commonStatuses are the statuses that every route may answer without documenting them.
var commonStatuses = []int{401, 403, 501, 503}

// violation describes how an answer differs from the document: an undocumented status, a
// body that does not match its schema, an error that is not a problem document. It is
// empty if there is no difference.
func (r route) violation(a answer) string {
	key := fmt.Sprint(a.status)
	if r.responses[key] == nil {
		if a.status < 400 || !slices.Contains(commonStatuses, a.status) {
			return "an undocumented status"
		}
		key = "default"
	}
	if a.status == 501 && !r.planned {
		return "not implemented"
	}
	at := "/paths/" + strings.ReplaceAll(r.path, "/", "~1") + "/" + strings.ToLower(r.method) + "/responses/" + key
	response := asObject(r.responses[key])
	if ref, ok := response["$ref"].(string); ok {
		at, response = strings.TrimPrefix(ref, "#"), resolve(openAPI(), response)
	}
	for name, header := range asObject(response["headers"]) {
		if a.header.Get(name) == "" && resolve(openAPI(), header)["required"] != false {
			return "a missing header " + name
		}
	}
	content := asObject(response["content"])
	if content == nil {
		if len(a.body) > 0 {
			return "an undocumented body"
		}
		return ""
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if content[media] == nil {
		return "an undocumented content type " + media
	}
	if a.status >= 400 && media != "application/problem+json" {
		return "an error that is not a problem document"
	}
	if media == "text/html" {
		return ""
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		return err.Error()
	}
	if a.status >= 400 {
		p := asObject(v)
		if fmt.Sprint(p["status"]) != fmt.Sprint(a.status) || p["code"] == "" || p["detail"] == "" || p["title"] == "" {
			return "a problem document without its status, code, detail or title"
		}
	}
	schema := openapi.Load().CompileSchema(at + "/content/" + strings.ReplaceAll(media, "/", "~1") + "/schema")
	if err := schema.Validate(v); err != nil {
		return err.Error()
	}
	return ""
}

func TestDocumentedRoutes_MatchServedOperations(t *testing.T) {
	all := documentedRoutes()
	if len(all) < 45 {
		t.Errorf("only %d routes found", len(all))
	}
	if len(all) != len(openapi.Load().Operations) {
		t.Errorf("%d routes found, %d served", len(all), len(openapi.Load().Operations))
	}
}
