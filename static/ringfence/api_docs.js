"use strict";

// The writes of somebody who is logged in carry the CSRF token, as those of the pages do.
function withToken(request) {
  const found = document.cookie.match(/(?:^|; )ringfence_csrf=([^;]+)/);
  if (found) request.headers["X-CSRFToken"] = found[1];
  return request;
}

const docs = document.getElementById("docs");
SwaggerUIBundle({ url: docs.dataset.schema, domNode: docs, deepLinking: true, requestInterceptor: withToken });
