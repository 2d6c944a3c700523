package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// suiteScan looks for the secrets of all tests in what all local stacks have stored, logged and
// exported. TestMain asks it after the last test.
var suiteScan = &secretScan{}

// secretScan keeps the data of stacks in one directory for each: the tables, the queues, the log and
// an export. A secret of one test is looked for in the data of all, since nothing but the block, the
// server or the person that it is for may have it.
type secretScan struct {
	mu      sync.Mutex
	root    string
	stacks  int
	secrets []string
}

// minScannedSecret is the shortest secret that is looked for: shorter ones are found by chance.
const minScannedSecret = 8

// newDir returns a directory for the data of one stack.
func (s *secretScan) newDir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == "" {
		root, err := os.MkdirTemp("", "lockstep-secrets-")
		if err != nil {
			return "", err
		}
		s.root = root
	}
	s.stacks++
	dir := filepath.Join(s.root, fmt.Sprint(s.stacks))
	return dir, os.Mkdir(dir, 0o700)
}

func (s *secretScan) add(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range secrets {
		if len(secret) >= minScannedSecret && !slices.Contains(s.secrets, secret) {
			s.secrets = append(s.secrets, secret)
		}
	}
}

// addFile adds the values of a file for --secrets.
func (s *secretScan) addFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var values map[string]string
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	for _, value := range values {
		s.add(value)
	}
	return nil
}

// watch registers a stack before its first start: its secrets, and the directory of its data if the
// test does not name one.
func (s *secretScan) watch(t testing.TB, o *stackOptions) {
	t.Helper()
	for i, arg := range o.args {
		if arg != "--secrets" || i+1 == len(o.args) {
			continue
		}
		if err := s.addFile(o.args[i+1]); err != nil {
			t.Logf("the secrets of %s are not looked for: %v", o.args[i+1], err) // a test of an invalid file
		}
	}
	if o.data != "" {
		return
	}
	var err error
	if o.data, err = s.newDir(); err != nil {
		t.Fatal(err)
	}
}

// export keeps what the command exports of a stack that runs. A stack that a test has broken has none.
func (s *secretScan) export(t testing.TB, stack *localStack) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, testkit.Binary(t, "lockstep"), "--url="+stack.url, "export", "-").Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(stack.options.data, "export.jsonl"), out, 0o600)
	}
	if err != nil {
		t.Logf("no export is scanned for secrets: %v", err)
	}
}

// keep keeps the data and the logs of a stack that was stopped. The data of a directory of the test
// are moved: the test would remove them.
func (s *secretScan) keep(t testing.TB, dir string, logs []*testkit.Buffer) {
	t.Helper()
	if filepath.Dir(dir) != s.root {
		to, err := s.newDir()
		if err == nil {
			err = os.Rename(dir, filepath.Join(to, "data"))
		}
		if err != nil && !os.IsNotExist(err) { // another stack of the test had the same data
			t.Errorf("the data are not kept for the scan: %v", err)
			return
		}
		dir = to
	}
	for i, log := range logs {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("stack-%d.log", i)), []byte(log.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// findings returns where secrets are found, and how many items of tables and bytes of other files were
// looked at.
func (s *secretScan) findings(binary string) (found []string, items, size int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == "" {
		return nil, 0, 0, nil
	}
	plain, err := newDecompressor()
	if err != nil {
		return nil, 0, 0, err
	}
	forms := secretForms(s.secrets)
	look := func(where, text string, queue bool) {
		for _, form := range forms {
			if at := strings.Index(text, form); at >= 0 {
				found = append(found, fmt.Sprintf("%s has a secret: %q", where, text[max(0, at-100):min(len(text), at+len(form)+20)]))
			}
		}
		// The message to the worker of a callback has the token that it is to deliver.
		if at := resumeTokenRE.FindStringIndex(text); at != nil && !queue {
			found = append(found, fmt.Sprintf("%s has a token: %q", where, text[max(0, at[0]-100):min(len(text), at[1]+20)]))
		}
	}
	err = filepath.WalkDir(s.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		size += len(raw)
		look(path, string(raw), d.Name() == "messages.log")
		if d.Name() != "dynamodb.sqlite" {
			return nil
		}
		return scanTables(binary, filepath.Dir(path), func(table, page string, n int) {
			items += n
			look(path+" table "+table, page+plain(page), false)
		})
	})
	return found, items, size, err
}

func (s *secretScan) remove() {
	if s.root != "" {
		_ = os.RemoveAll(s.root) // what is left is below the temporary directory
	}
}

// resumeTokenRE matches the tokens with which people answer; their signature cannot be written by chance.
var resumeTokenRE = regexp.MustCompile(`lst1\.[A-Za-z0-9_.-]{40,}`)

// secretForms returns the forms in which secrets would be stored: as they are, in JSON, in JSON that is
// text of JSON, with <, > and & escaped or not, and as base64.
func secretForms(secrets []string) (forms []string) {
	add := func(form string) {
		if !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	for _, secret := range secrets {
		add(secret)
		add(base64.StdEncoding.EncodeToString([]byte(secret)))
		for _, escapeHTML := range []bool{true, false} {
			once := insideJSON(secret, escapeHTML)
			add(once)
			add(insideJSON(once, escapeHTML))
		}
	}
	return forms
}

// insideJSON returns a text as it stands between the quotes of a string of JSON.
func insideJSON(text string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	_ = e.Encode(text) // text can always be encoded
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// scanTables reads all items of all tables of a data directory, with the program that wrote them.
func scanTables(binary, dir string, page func(table, items string, n int)) error {
	db, err := dynamodb.Start(context.Background(), dynamodb.Options{Binary: binary, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { _ = db.Stop() }() // its exit status does not matter
	var list struct{ TableNames []string }
	if _, err := callTables(db.Endpoint(), "ListTables", map[string]any{}, &list); err != nil {
		return err
	}
	for _, table := range list.TableNames {
		request := map[string]any{"TableName": table}
		for {
			var reply struct {
				Count            int
				LastEvaluatedKey json.RawMessage
			}
			body, err := callTables(db.Endpoint(), "Scan", request, &reply)
			if err != nil {
				return fmt.Errorf("scan %s: %w", table, err)
			}
			page(table, body, reply.Count)
			if len(reply.LastEvaluatedKey) == 0 || string(reply.LastEvaluatedKey) == "null" {
				break
			}
			request["ExclusiveStartKey"] = reply.LastEvaluatedKey
		}
	}
	return nil
}

// callTables sends a request to a local DynamoDB and returns the body of the answer.
func callTables(endpoint, operation string, request, reply any) (string, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }() // it has been read
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %d %.300s", operation, answer.StatusCode, raw)
	}
	return string(raw), json.Unmarshal(raw, reply)
}

// scanSuite looks for secrets in what the stacks of all tests have left, and returns the exit code of
// the suite.
func scanSuite(code int) int {
	defer suiteScan.remove()
	if suiteScan.root == "" {
		return code
	}
	binary, err := dynamodb.Locate()
	var found []string
	var items, size int
	if err == nil {
		found, items, size, err = suiteScan.findings(binary)
	}
	fmt.Printf("scanned for %d secrets: %d stacks, %d items of tables, %d MB of files\n", len(suiteScan.secrets), suiteScan.stacks, items, size>>20)
	if err == nil && items == 0 {
		err = fmt.Errorf("no item was seen")
	}
	if err != nil {
		fmt.Println("the scan for secrets has failed:", err)
		return max(code, 1)
	}
	for _, one := range found[:min(len(found), 20)] {
		fmt.Println(one)
	}
	if len(found) > 0 {
		fmt.Printf("FAIL: secrets were found in %d places\n", len(found))
		return max(code, 1)
	}
	return code
}

// The scan finds what is planted: in an item as text and compressed, in a queue, in a log and in an
// export. Otherwise a suite that finds nothing would say nothing.
func TestSecretScan_FindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it writes the files of a local stack")
	const secret = `planted "one" <7>`
	binary := testkit.Binary(t, "dynoxide")
	scan := &secretScan{}
	defer scan.remove()
	scan.add(secret, "short")
	plant := func(item map[string]any) {
		t.Helper()
		dir, err := scan.newDir()
		if err != nil {
			t.Fatal(err)
		}
		db, err := dynamodb.Start(t.Context(), dynamodb.Options{Binary: binary, Dir: filepath.Join(dir, "dynamodb")})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Stop() }() // its exit status does not matter
		item["pk"] = map[string]string{"S": "a"}
		var reply struct{}
		for _, call := range []struct {
			operation string
			request   map[string]any
		}{
			{"CreateTable", map[string]any{"TableName": "planted", "BillingMode": "PAY_PER_REQUEST", "KeySchema": []any{map[string]string{"AttributeName": "pk", "KeyType": "HASH"}}, "AttributeDefinitions": []any{map[string]string{"AttributeName": "pk", "AttributeType": "S"}}}},
			{"PutItem", map[string]any{"TableName": "planted", "Item": item}},
		} {
			if _, err := callTables(db.Endpoint(), call.operation, call.request, &reply); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(n int, where string) {
		t.Helper()
		found, items, size, err := scan.findings(binary)
		if err != nil || items == 0 || size == 0 || len(found) < n || n == 0 && len(found) > 0 || n > 0 && !strings.Contains(found[len(found)-1], where) {
			t.Errorf("%d items, %d bytes, %v: %q, want %q", items, size, err, found, where)
		}
	}
	packed := func(text string) map[string]any {
		return map[string]any{"B": base64.StdEncoding.EncodeToString(compressed(t, text))}
	}
	plant(map[string]any{"v": packed(`{"harmless":"` + marker + `","short":"short"}`)})
	want(0, "")
	plant(map[string]any{"v": packed(strings.Repeat("much text, ", 50) + secret)})
	want(1, "table planted has a secret")
	plant(map[string]any{"v": map[string]string{"S": "text " + secret}})
	want(2, "has a secret")
	dir, err := scan.newDir()
	if err != nil {
		t.Fatal(err)
	}
	queues, err := sqs.New(sqs.Options{Dir: filepath.Join(dir, "sqs"), AutoCreate: func(string) (map[string]string, bool) { return map[string]string{}, true }})
	if err != nil {
		t.Fatal(err)
	}
	send, _ := json.Marshal(map[string]string{"QueueUrl": "http://sqs.test/000000000000/q", "MessageBody": `{"x":"` + base64.StdEncoding.EncodeToString([]byte(secret)) + `"}`})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sqs.test/", bytes.NewReader(send))
	r.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	answer := httptest.NewRecorder()
	queues.ServeHTTP(answer, r)
	if err := queues.Close(); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d %s, %v", answer.Code, answer.Body, err)
	}
	want(3, "sqs")
	for _, text := range []string{`{"msg":"planted \"one\" <7>"}`, "lst1." + strings.Repeat("Ab-9", 20)} {
		if dir, err = scan.newDir(); err != nil {
			t.Fatal(err)
		}
		before, _, _, _ := scan.findings(binary)
		if err := os.WriteFile(filepath.Join(dir, "stack-0.log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want(len(before)+1, "stack-0.log has a ")
	}
}
