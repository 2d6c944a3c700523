package document

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// JSON is openapi.yaml in its served form.
//
//go:embed openapi.json
var JSON []byte

// location names the document among the compiler's resources; nothing is
// ever fetched.
const location = "lockstep:///openapi.json"

// Document is the OpenAPI document, read and ready to judge by.
type Document struct {
	// Operations are the routes by pattern of the mux: "GET /locks/{type}/{id}".
	Operations map[string]*Operation

	root map[string]any

	mu       sync.Mutex // the compiler is for one at a time
	compiler *jsonschema.Compiler
}

// Operation is what the document says of one route.
type Operation struct {
	ID      string
	Planned bool // in the contract and not served yet
	Open    bool // for callers that nobody knows

	doc        *Document
	parameters []parameter
	body       string // pointer to the schema of a JSON body; empty: none, or not JSON
	takesBody  bool
	needsBody  bool
	maxBody    int64
}

type parameter struct {
	name, in string
	required bool
	kind     string // the JSON type, or that of the items of a list
	list     bool
	schema   string // pointer
}

// defaultBody is the largest body where the document names no other.
const defaultBody = 1 << 20

// Open reads the embedded document. The document is part of the build:
// a fault in it is a fault of the program.
var Open = sync.OnceValue(func() *Document {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSON))
	if err != nil {
		panic(fmt.Sprintf("openapi.json: %v", err))
	}
	d := &Document{root: parsed.(map[string]any), Operations: map[string]*Operation{}, compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(location, parsed); err != nil {
		panic(fmt.Sprintf("openapi.json: %v", err))
	}
	for path, item := range object(d.root["paths"]) {
		at := "/paths/" + escape(path)
		shared := d.parameters(at+"/parameters", object(item)["parameters"])
		for method, op := range object(item) {
			if method != "parameters" {
				d.Operations[strings.ToUpper(method)+" "+path] = d.operation(at+"/"+method, object(op), shared)
			}
		}
	}
	return d
})

func (d *Document) operation(at string, op map[string]any, shared []parameter) *Operation {
	o := &Operation{doc: d, ID: op["operationId"].(string), maxBody: defaultBody}
	tags, _ := op["tags"].([]any)
	for _, t := range tags {
		o.Planned = o.Planned || t == "planned"
	}
	security, said := op["security"].([]any)
	o.Open = said && len(security) == 0
	o.parameters = append(d.parameters(at+"/parameters", op["parameters"]), shared...)
	if n, ok := op["x-max-body"].(fmt.Stringer); ok {
		if _, err := fmt.Sscan(n.String(), &o.maxBody); err != nil {
			panic(fmt.Sprintf("openapi.json: %s: %v", at, err))
		}
	}
	if body, ok := op["requestBody"].(map[string]any); ok {
		o.takesBody = true
		o.needsBody, _ = body["required"].(bool)
		if _, ok := object(body["content"])["application/json"]; ok {
			o.body = at + "/requestBody/content/application~1json/schema"
		}
	}
	return o
}

func (d *Document) parameters(at string, list any) []parameter {
	items, _ := list.([]any)
	var ps []parameter
	for i, item := range items {
		at := fmt.Sprintf("%s/%d", at, i)
		spec := object(item)
		if ref, ok := spec["$ref"].(string); ok {
			at = strings.TrimPrefix(ref, "#")
			spec = object(d.at(at))
		}
		p := parameter{name: spec["name"].(string), in: spec["in"].(string), schema: at + "/schema"}
		p.required, _ = spec["required"].(bool)
		schema := d.resolve(spec["schema"])
		if schema["type"] == "array" {
			p.list = true
			schema = d.resolve(schema["items"])
		}
		p.kind, _ = schema["type"].(string)
		ps = append(ps, p)
	}
	return ps
}

// resolve follows references to the schema itself.
func (d *Document) resolve(schema any) map[string]any {
	s := object(schema)
	for {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		s = object(d.at(strings.TrimPrefix(ref, "#")))
	}
}

// at finds what a pointer points to.
func (d *Document) at(pointer string) any {
	var v any = d.root
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		v = object(v)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return v
}

// schema compiles the schema at a pointer; the compiler keeps it.
func (d *Document) schema(pointer string) *jsonschema.Schema {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts := strings.Split(pointer, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return d.compiler.MustCompile(location + "#" + strings.Join(parts, "/"))
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func escape(part string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
}
