package enginehost_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockstep-run/lockstep/shared/boot/enginehost"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// The provider gets the secret, the solution and the key in one request. What it does not say clearly,
// and what it says of our own mistakes, is an error and never a refusal of whoever has sent the form.
func TestCaptchaCheck_AsksTheProvider(t *testing.T) {
	status, answer, requests := 200, "", 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; r.Method != http.MethodPost || r.PostFormValue("secret") != "s3cr3t" || r.PostFormValue("response") != "a b&c" || r.PostFormValue("idempotency_key") != "key" {
			t.Errorf("%s %v", r.Method, r.PostForm)
		}
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer provider.Close()
	check := enginehost.NewCaptchaCheck(provider.URL)
	for _, test := range []struct {
		status         int
		answer         string
		solved, failed bool
	}{
		{200, `{"success":true,"hostname":"a.example"}`, true, false},
		{200, `{"success":false,"error-codes":["invalid-input-response"]}`, false, false},
		{200, `{"success":false,"error-codes":["timeout-or-duplicate"]}`, false, false},
		{200, `{"success":false,"error-codes":["invalid-input-secret"]}`, false, true},
		{200, `{"success":false,"error-codes":["internal-error"]}`, false, true},
		{200, `{}`, false, true},
		{502, `<html>`, false, true},
		{302, ``, false, true},
	} {
		status, answer, requests = test.status, test.answer, 0
		if solved, err := check(t.Context(), spec.CaptchaTurnstile, "s3cr3t", "a b&c", "key"); solved != test.solved || (err != nil) != test.failed || requests != 1 {
			t.Errorf("%d %s: %v, %v after %d requests", test.status, test.answer, solved, err, requests)
		}
	}
	provider.Close()
	if solved, err := check(t.Context(), spec.CaptchaTurnstile, "s3cr3t", "a b&c", "key"); solved || err == nil {
		t.Errorf("without a provider: %v, %v", solved, err)
	}
}
