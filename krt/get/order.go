package get

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// order compares objects by what an expression finds in them.
type order struct{ path *jsonpath.JSONPath }

// newOrder understands a JSONPath expression with or without its braces and its first dot, as kubectl does.
func newOrder(expression string) (*order, error) {
	if !strings.HasPrefix(expression, "{") {
		expression = "{." + strings.TrimPrefix(expression, ".") + "}"
	}
	path := jsonpath.New("sort-by").AllowMissingKeys(true)
	if err := path.Parse(expression); err != nil {
		return nil, err
	}
	return &order{path: path}, nil
}

// compare puts objects without the field first. Times of the API sort as the texts they are.
func (o *order) compare(a, b unstructured.Unstructured) int {
	x, y := o.find(a), o.find(b)
	xNumber, xIs := number(x)
	yNumber, yIs := number(y)
	if xIs && yIs {
		return cmp.Compare(xNumber, yNumber)
	}
	xText, _ := x.(string)
	yText, _ := y.(string)
	return strings.Compare(xText, yText)
}

// find returns the first value that the expression finds, or nil.
func (o *order) find(u unstructured.Unstructured) any {
	results, err := o.path.FindResults(u.Object)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	return results[0][0].Interface()
}

// number returns a value as a number; no value counts as one below all others.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case nil:
		return -1 << 62, true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
