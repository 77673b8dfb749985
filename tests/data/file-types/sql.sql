CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, joined DATE);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer(id), amount NUMERIC(10, 2));
INSERT INTO customer (id, name, joined) VALUES (1, 'Ada', '2020-01-02'), (2, 'Alan', '2021-03-04');
SELECT c.name, SUM(p.amount) AS total FROM customer c LEFT JOIN purchase p ON p.customer_id = c.id
GROUP BY c.name HAVING SUM(p.amount) > 100 ORDER BY total DESC;
