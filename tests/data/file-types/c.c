#include <stdio.h>
#include <stdlib.h>

struct node {
    int value;
    struct node *next;
};

static struct node *push(struct node *head, int value) {
    struct node *node = malloc(sizeof *node);
    if (node == NULL) {
        abort();
    }
    node->value = value;
    node->next = head;
    return node;
}

int main(void) {
    struct node *list = NULL;
    for (int i = 0; i < 10; i++) {
        list = push(list, i * i);
    }
    for (struct node *n = list; n != NULL; n = n->next) {
        printf("%d\n", n->value);
    }
    return 0;
}
